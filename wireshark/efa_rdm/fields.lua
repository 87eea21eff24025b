-- The fields of the dissector: what packet filters, columns and tshark's -e can name.
-- make() creates them; the key of a field is its name without "efa_rdm.".

local M = {}

local PREFIX = "efa_rdm."

-- Numbers by their bytes; what isn't decimal says so.
local numbers = {
  [1] = { version = base.DEC, p2p_supported = base.DEC },
  [4] = {
    msg_id = base.DEC, send_id = base.DEC, recv_id = base.DEC, credit_request = base.DEC,
    rma_iov_count = base.DEC, read_iov_count = base.DEC, nextra_p3 = base.DEC,
    connid = base.HEX, device_version = base.HEX,
    ["user_recv_qp.qpn"] = base.DEC, ["user_recv_qp.qkey"] = base.HEX,
    op_id = base.DEC, op_id_valid = base.DEC, prov_errno = base.DEC, ["raw_addr.size"] = base.DEC,
  },
  [8] = {
    msg_length = base.DEC, seg_length = base.DEC, seg_offset = base.DEC, runt_length = base.DEC,
    recv_length = base.DEC, tag = base.HEX, cq_data = base.HEX, host_id = base.HEX, extra_info = base.HEX,
  },
}

local constructors = { [1] = ProtoField.uint8, [4] = ProtoField.uint32, [8] = ProtoField.uint64 }

function M.make(layout)
  local F = {}
  local function add(kind, name, title, ...)
    F[name] = ProtoField[kind](PREFIX .. name, title or name, ...)
  end

  for size, names in pairs(numbers) do
    for name, display in pairs(names) do
      F[name] = constructors[size](PREFIX .. name, name, display)
    end
  end

  local types = {}
  for id, name in pairs(layout.unused) do types[id] = name end
  for id, t in pairs(layout.types) do types[id] = t.name end
  add("uint8", "type", nil, base.DEC, types)
  add("uint32", "atomic_datatype", nil, base.DEC, layout.datatypes)
  add("uint32", "atomic_op", nil, base.DEC, layout.ops)
  add("uint32", "ref_kind", nil, base.DEC, layout.ref_kinds)
  add("uint32", "emitter", nil, base.DEC, layout.emitters)
  add("bytes", "padding")
  add("bytes", "reserved")

  add("uint16", "flags", nil, base.HEX)
  for _, bits in pairs(layout.flags) do
    for _, bit in ipairs(bits) do
      local name = "flags." .. bit[2]
      if not F[name] then add("bool", name, bit[2], 16, nil, bit[1]) end
    end
  end
  for id, feature in pairs(layout.extra_info) do
    add("bool", "extra_info." .. feature[1], feature[2], 64, nil, 2 ^ id)
  end

  for _, list in ipairs({ "rma_iov", "read_iov" }) do
    add("none", list)
    add("uint64", list .. ".addr", "addr", base.HEX)
    add("uint64", list .. ".len", "len", base.DEC)
    add("uint64", list .. ".key", "key", base.DEC)
  end

  for _, who in ipairs({ "src", "dst", "raw_addr" }) do
    local titles = { src = "sender's raw address", dst = "receiver's raw address", raw_addr = "addr" }
    add("string", who, titles[who])
    add("ipv6", who .. ".gid", "gid")
    add("uint16", who .. ".qpn", "qpn", base.DEC)
    add("uint32", who .. ".connid", "connid", base.HEX)
  end
  add("uint16", "raw_addr.pad", "pad", base.HEX)
  add("uint64", "raw_addr.reserved", "reserved", base.HEX)

  -- What follows the headers.
  add("uint32", "len", "bytes of data", base.DEC)
  add("bytes", "data", "data")
  add("bytes", "data.buf", "buf")
  add("bytes", "data.compare", "compare")
  add("bytes", "trailer", "unknown bytes behind the packet")
  add("bool", "headerless", "data without headers, for a user receive queue pair")

  -- What was found out from other packets.
  add("uint32", "stream", "stream", base.DEC)
  add("framenum", "request", "operation begun in", base.NONE, frametype.REQUEST)
  add("framenum", "response_to", "answer to", base.NONE, frametype.REQUEST)
  add("framenum", "response_in", "answered in", base.NONE, frametype.RESPONSE)
  add("relative_time", "time", "time since what it answers")
  add("framenum", "copy_of", "the same packet at its other end", base.NONE, frametype.NONE)
  add("framenum", "copy_in", "the same packet at its other end", base.NONE, frametype.NONE)
  add("framenum", "repost_of", "sent again, first sent in", base.NONE, frametype.RETRANS_PREV)
  add("framenum", "message.first", "message begun in", base.NONE, frametype.NONE)
  add("framenum", "message.segment", "segment of the message in", base.NONE, frametype.NONE)
  add("uint64", "message.length", "bytes of the message that packets carry", base.DEC)
  add("uint64", "message.missing", "bytes of these that are not in the capture", base.DEC)
  return F
end

local function experts(group, severity, list)
  local E = {}
  for name, text in pairs(list) do
    E[name] = ProtoExpert.new(PREFIX .. name, text, expert.group[group], expert.severity[severity])
  end
  return E
end

-- make_experts gives them by name.
function M.make_experts()
  local all = experts("MALFORMED", "ERROR", { malformed = "malformed packet" })
  local warnings = experts("PROTOCOL", "WARN", {
    zero_recv_length = "recv_length is 0: the transfer cannot go on",
    beyond_message = "the data goes beyond the end of the message",
  })
  local notes = experts("SEQUENCE", "NOTE", {
    no_request = "what this answers is not in the capture",
    repost = "the packet was sent again",
  })
  for name, e in pairs(warnings) do all[name] = e end
  for name, e in pairs(notes) do all[name] = e end
  return all
end

return M
