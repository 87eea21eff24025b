package efa

import (
	"reflect"

	"github.com/efactor/efactor/actors/settings"
)

// Setting is one of the protocol's settings (fi_getparams).
type Setting struct {
	Name    string // of the field of ProtocolConfig
	EFA     string // the EFA provider's variable of the same meaning; "" if there is none
	Type    string // Go's
	Default any    // on the endpoint's device
	Value   any    // in force
}

// variables are the EFA provider's names of settings.
var variables = map[string]string{
	"SendQueue": "FI_EFA_TX_SIZE", "RecvQueue": "FI_EFA_RX_SIZE", "Refill": "FI_EFA_INTERNAL_RX_REFILL_THRESHOLD",
	"MaxMedium": "FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", "MinRead": "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE",
	"MinReadWrite": "FI_EFA_INTER_MIN_READ_WRITE_SIZE", "MaxCopy": "FI_EFA_MAX_MEMCPY_SIZE", "ReadSegment": "FI_EFA_READ_SEGMENT_SIZE",
	"RuntSize": "FI_EFA_RUNT_SIZE", "Credits": "FI_EFA_TX_MIN_CREDITS", "RecvWindow": "FI_EFA_RECVWIN_SIZE",
	"RNRRetry": "FI_EFA_RNR_RETRY", "RNRInitial": "FI_EFA_TIMEOUT_INTERVAL", "RNRMax": "FI_EFA_MAX_TIMEOUT",
	"NoRDMARead": "FI_EFA_USE_DEVICE_RDMA", "NoRDMAWrite": "FI_EFA_USE_DEVICE_RDMA", "Homogeneous": "FI_OPT_EFA_HOMOGENEOUS_PEERS",
}

// Settings lists the settings of an endpoint's protocol, in the order of ProtocolConfig's fields:
// what each would be by default, and what is in force. Before Enable the values are those that
// NewEndpoint was given.
func (e *Endpoint) Settings() []Setting {
	info := e.dom.fab.dev.Info()
	usual := reflect.ValueOf(settings.New(ProtocolConfig{}, &info).On(&info).Settings)
	now := reflect.ValueOf(e.Config().Protocol)
	var list []Setting
	for i := range now.NumField() {
		f := now.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		list = append(list, Setting{
			Name: f.Name, EFA: variables[f.Name], Type: f.Type.String(), Default: usual.Field(i).Interface(), Value: now.Field(i).Interface(),
		})
	}
	return list
}
