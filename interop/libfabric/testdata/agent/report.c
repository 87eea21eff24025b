/* The reply to a command. */
#include <stdarg.h>

#include "agent.h"

int reply_ok(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("ok");
	if (format[0] != '\0') {
		printf(" ");
		vprintf(format, args);
	}
	printf("\n");
	va_end(args);
	return 0;
}

/* reply_fail reports what libfabric returned: err is negative, or positive. */
int reply_fail(int err, const char *what)
{
	int positive = err < 0 ? -err : err;

	printf("fail err=%d text=%s: %s\n", positive, what, fi_strerror(positive));
	return -1;
}

/* reply_wrong reports a command that makes no sense. */
int reply_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("fail err=0 text=");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	return -1;
}
