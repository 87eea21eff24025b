-- Layouts of all packets of the EFA RDM protocol, version 4. Data only: decode.lua
-- reads packets by it, links.lua knows by it what answers what.
--
-- A layout is a text of name:bytes in the order on the wire. Names are those of the
-- specification. "multiuse" is connid if CONNID_HDR is set, else padding.

local M = {}

local CONNID_HDR = 0x8000

-- Flags of the base header (tables 1.4, 2.3 and 3.1), and those that libfabric has
-- besides: read_nack, user_recv_qp and hmem_p2p.
M.flags = {
  req = {
    { 0x0001, "req_opt_raw_addr_hdr" }, { 0x0002, "req_opt_cq_data_hdr" }, { 0x0004, "req_msg" },
    { 0x0008, "req_tagged" }, { 0x0010, "req_rma" }, { 0x0020, "req_atomic" },
    { 0x2000, "read_nack" }, { CONNID_HDR, "connid_hdr" },
  },
  cts = { { 0x0080, "cts_emulated_read" }, { CONNID_HDR, "connid_hdr" } },
  handshake = {
    { 0x0001, "handshake_host_id_hdr" }, { 0x0002, "handshake_device_version_hdr" },
    { 0x0004, "user_recv_qp" }, { 0x0008, "hmem_p2p" }, { CONNID_HDR, "connid_hdr" },
  },
  other = { { CONNID_HDR, "connid_hdr" } },
}

-- Bits of HANDSHAKE's extra_info (table 2.1; 7 to 9 are libfabric's).
M.extra_info = {
  [0] = { "rdma_read", "RDMA-Read based data transfer" },
  { "delivery_complete", "delivery complete" },
  { "constant_header", "keep packet header length constant (request)" },
  { "connid_header", "sender connection id in packet header (request)" },
  { "runt", "runting read message protocol" },
  { "rdma_write", "RDMA-Write based data transfer" },
  { "read_nack", "Read nack packets" },
  { "user_recv_qp", "headerless data at another queue pair (request)" },
  { "unsolicited_write", "unsolicited write receive" },
  { "peer_error", "PEER_ERROR packets" },
}

-- Optional fields, by the flag that announces them, in the order on the wire.
local connid_pad = { CONNID_HDR, "connid:4 padding:4" }
local handshake = {
  connid_pad, { 0x0001, "host_id:8" }, { 0x0002, "device_version:4 reserved:4" },
  { 0x0004, "user_recv_qp.qpn:4 user_recv_qp.qkey:4" }, { 0x0008, "p2p_supported:1 reserved:7" },
}
local req = { { 0x0001, "raw_addr" }, { 0x0002, "cq_data:8" }, { CONNID_HDR, "connid:4" } }

-- by type: name, flags, mandatory (the fields behind the base header), optional,
-- req (it begins an operation), data (bytes of data follow; the name of a field: as
-- many as it says), segment (the message is in several packets), answers (types that
-- may answer it).
M.types = {}

local function add(id, name, mandatory, t)
  t = t or {}
  t.name, t.mandatory = name, mandatory
  t.flags = t.flags or M.flags.other
  t.optional = t.optional or {}
  M.types[id] = t
end

local function add_req(id, name, mandatory, t)
  t.req, t.flags, t.optional = true, M.flags.req, req
  t.answers = t.answers or {}
  add(id, name, mandatory, t)
end

-- Types that have a name and no layout: retired, or never sent by any release.
M.unused = {
  [1] = "RTS", [2] = "CONNACK", [131] = "READ_RTR", [142] = "RUNTCTS_MSGRTM", [143] = "RUNTCTS_TAGRTM",
  [144] = "RUNTCTS_RTW", [147] = "RUNTREAD_RTW",
}

-- Where releases differ from the specification's tables this follows the releases:
-- READRSP has recv_id first, and seg_length; MEDIUM has the length of the whole
-- message; SHORT_RTR has recv_length; a DC_WRITE_RTA has send_id.
add(3, "CTS", "multiuse:4 send_id:4 recv_id:4 recv_length:8", { flags = M.flags.cts })
add(4, "CTSDATA", "recv_id:4 seg_length:8 seg_offset:8", { optional = { connid_pad }, data = "seg_length" })
add(5, "READRSP", "multiuse:4 recv_id:4 send_id:4 seg_length:8", { data = "seg_length" })
add(7, "EOR", "send_id:4 recv_id:4", { optional_multiuse = true })
add(8, "ATOMRSP", "multiuse:4 reserved:4 recv_id:4 seg_length:8", { data = "seg_length" })
add(9, "HANDSHAKE", "nextra_p3:4", { flags = M.flags.handshake, optional = handshake, extra_info = true })
add(10, "RECEIPT", "send_id:4 msg_id:4 multiuse:4")
add(11, "READ_NACK", "send_id:4 recv_id:4 multiuse:4")
-- Between releases 2.6 and 2.7 libfabric changed it twice; the length says which one it is.
add(12, "PEER_ERROR", "msg_id:4 op_id:4 emitter:4 prov_errno:4 multiuse:4", { by_size = {
  [20] = "op_id:4 ref_kind:4 prov_errno:4 multiuse:4",
  [24] = "msg_id:4 op_id:4 emitter:4 prov_errno:4 multiuse:4",
  [28] = "msg_id:4 op_id:4 op_id_valid:4 emitter:4 prov_errno:4 multiuse:4",
} })

-- An RTM comes untagged and, as the next type, with a tag at the end.
local function add_rtm(id, name, mandatory, t)
  local copy = {}
  for k, v in pairs(t) do copy[k] = v end
  add_req(id, name .. "_MSGRTM", mandatory, t)
  add_req(id + 1, name .. "_TAGRTM", mandatory .. " tag:8", copy)
end

local cts, receipt = { CTS = true, CTSDATA = true }, { RECEIPT = true }
local both = { CTS = true, CTSDATA = true, RECEIPT = true }
local eor = { EOR = true, READ_NACK = true }

add_rtm(64, "EAGER", "msg_id:4", { data = true })
add_rtm(66, "MEDIUM", "msg_id:4 msg_length:8 seg_offset:8", { data = true, segment = "msg_length" })
local longcts = "msg_id:4 msg_length:8 send_id:4 credit_request:4"
add_rtm(68, "LONGCTS", longcts, { data = true, answers = cts })
add_rtm(128, "LONGREAD", "msg_id:4 msg_length:8 send_id:4 read_iov_count:4", { answers = eor })
add_rtm(133, "DC_EAGER", "msg_id:4 send_id:4 padding:4", { data = true, answers = receipt })
add_rtm(135, "DC_MEDIUM", "msg_id:4 send_id:4 padding:4 msg_length:8 seg_offset:8",
  { data = true, segment = "msg_length", answers = receipt })
add_rtm(137, "DC_LONGCTS", longcts, { data = true, answers = both })
add_rtm(145, "RUNTREAD", "msg_id:4 msg_length:8 send_id:4 read_iov_count:4 seg_offset:8 runt_length:8",
  { data = true, segment = "runt_length", answers = eor })

local long_rtw = "rma_iov_count:4 msg_length:8 send_id:4 credit_request:4"
add_req(70, "EAGER_RTW", "rma_iov_count:4", { data = true })
add_req(71, "LONGCTS_RTW", long_rtw, { data = true, answers = cts })
add_req(130, "LONGREAD_RTW", "rma_iov_count:4 msg_length:8 send_id:4 read_iov_count:4", { answers = eor })
add_req(139, "DC_EAGER_RTW", "rma_iov_count:4 send_id:4 padding:4", { data = true, answers = receipt })
add_req(140, "DC_LONGCTS_RTW", long_rtw, { data = true, answers = both })

local rtr = "rma_iov_count:4 msg_length:8 recv_id:4 recv_length:4"
add_req(72, "SHORT_RTR", rtr, { answers = { READRSP = true } })
add_req(73, "LONGCTS_RTR", rtr, { answers = { READRSP = true, CTS = true, CTSDATA = true } })

local rta = "msg_id:4 rma_iov_count:4 atomic_datatype:4 atomic_op:4 "
local atomrsp = { ATOMRSP = true }
add_req(74, "WRITE_RTA", rta .. "padding:4", { data = true })
add_req(75, "FETCH_RTA", rta .. "recv_id:4", { data = true, answers = atomrsp })
add_req(76, "COMPARE_RTA", rta .. "recv_id:4", { data = true, answers = atomrsp, compare = true })
add_req(141, "DC_WRITE_RTA", rta .. "send_id:4", { data = true, answers = receipt })

-- libfabric's enum fi_datatype and enum fi_op.
M.datatypes = {
  [0] = "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT", "DOUBLE",
  "FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX", "INT128", "UINT128",
}
M.ops = {
  [0] = "MIN", "MAX", "SUM", "PROD", "LOR", "LAND", "BOR", "BAND", "LXOR", "BXOR", "ATOMIC_READ", "ATOMIC_WRITE",
  "CSWAP", "CSWAP_NE", "CSWAP_LE", "CSWAP_LT", "CSWAP_GE", "CSWAP_GT", "MSWAP", "DIFF",
}
M.ref_kinds = { [0] = "ope", "msg_id", "msg_id_skip" }
M.emitters = { "txe", "rxe" }

return M
