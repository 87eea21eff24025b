package endpoint_test
import ("testing";"fmt";"os";"strconv")
func TestDbg(t *testing.T){
 n,_:=strconv.Atoi(os.Getenv("SEED"))
 dbg=true
 abuse(t, program(uint64(n)))
}
func init(){ _ = fmt.Sprint }
