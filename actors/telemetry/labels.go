package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
)

// Device is a device as metrics name it.
type Device struct {
	Name string // of the driver and the attachment: "tcp:10.1.2.3:0"
	Kind string // "tcp"; of several, best first, "shm,tcp"
}

func (d Device) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attrDevice.String(d.Name), attrDeviceKind.String(d.Kind)}
}

// pathAttributes are the attributes of a device, and which of a Sample's Paths are its:
// several if devices have one name.
type pathAttributes struct {
	attrs []attribute.KeyValue
	paths []int
}

// paths lists the devices that the endpoints are on.
func (c *Config) paths() []pathAttributes {
	if len(c.Devices) == 0 {
		return []pathAttributes{{c.Device.attributes(), []int{0}}}
	}
	var list []pathAttributes
	at := map[Device]int{}
	for i, d := range c.Devices {
		k, ok := at[d]
		if !ok {
			k = len(list)
			at[d] = k
			list = append(list, pathAttributes{attrs: d.attributes()})
		}
		list[k].paths = append(list[k].paths, i)
	}
	return list
}

// maxLabels is how many names of endpoints metrics tell apart. Each has some hundred
// series, which last as long as the Collector.
const maxLabels = 256

// otherLabel is of endpoints with further names.
const otherLabel = "_OTHER"

// labels are the names of endpoints that metrics have.
type labels map[string]struct{}

// of returns the label of an endpoint with a name; "" is of all without.
func (l *labels) of(name string) string {
	if name == "" {
		return ""
	}
	if _, ok := (*l)[name]; ok {
		return name
	}
	if len(*l) >= maxLabels {
		return otherLabel
	}
	if *l == nil {
		*l = labels{}
	}
	(*l)[name] = struct{}{}
	return name
}

// named is the attribute of an endpoint's name, if it has one.
func named(label string) []attribute.KeyValue {
	if label == "" {
		return nil
	}
	return []attribute.KeyValue{attrEndpoint.String(label)}
}
