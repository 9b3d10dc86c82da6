/* Our declarations of NVTX's binary interface against NVIDIA's headers. Compiled where these are installed. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "capture/nvtx_abi.h"

#define SAME(ours, our_field, theirs, their_field)                                                                     \
  _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #their_field)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)

SAME_SIZE(bt_nvtx_attributes, nvtxEventAttributes_t);
SAME(bt_nvtx_attributes, size, nvtxEventAttributes_t, size);
SAME(bt_nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME(bt_nvtx_attributes, payload_count, nvtxEventAttributes_t, reserved0);
SAME(bt_nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME(bt_nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME(bt_nvtx_attributes, message, nvtxEventAttributes_t, message);
SAME_SIZE(bt_nvtx_callbacks, NvtxExportTableCallbacks);
SAME(bt_nvtx_callbacks, get_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_SIZE(bt_nvtx_module, nvtxExtModuleInfo_t);
SAME(bt_nvtx_module, id, nvtxExtModuleInfo_t, moduleId);
SAME(bt_nvtx_module, segments, nvtxExtModuleInfo_t, segments);
SAME_SIZE(bt_nvtx_segment, nvtxExtModuleSegment_t);
SAME(bt_nvtx_segment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME_SIZE(bt_nvtx_payload, nvtxPayloadData_t);
SAME(bt_nvtx_payload, bytes, nvtxPayloadData_t, payload);
SAME_SIZE(bt_nvtx_entry, nvtxPayloadSchemaEntry_t);
SAME(bt_nvtx_entry, name, nvtxPayloadSchemaEntry_t, name);
SAME(bt_nvtx_entry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME_SIZE(bt_nvtx_schema_attributes, nvtxPayloadSchemaAttr_t);
SAME(bt_nvtx_schema_attributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME(bt_nvtx_schema_attributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
SAME(bt_nvtx_schema_attributes, id, nvtxPayloadSchemaAttr_t, schemaId);

#define EQUAL(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #theirs)
EQUAL(BT_NVTX_PAYLOAD_EXTENDED, NVTX_PAYLOAD_TYPE_EXT);
EQUAL(BT_NVTX_EXTENSION_PAYLOAD, NVTX_EXT_PAYLOAD_MODULEID);
EQUAL(BT_NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
EQUAL(BT_NVTX_NO_PUSH_POP, NVTX_NO_PUSH_POP_TRACKING);
EQUAL(BT_NVTX_RANGE_END, NVTX_CBID_CORE_RangeEnd);
EQUAL(BT_NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
EQUAL(BT_NVTX_CORE_SIZE, NVTX_CBID_CORE_SIZE);
EQUAL(BT_NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
EQUAL(BT_NVTX_DOMAIN_REGISTER_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
EQUAL(BT_NVTX_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
EQUAL(BT_NVTX_CORE2_SIZE, NVTX_CBID_CORE2_SIZE);
EQUAL(BT_NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
EQUAL(BT_NVTX_POP_PAYLOAD, NVTX3EXT_CBID_nvtxRangePopPayload);
EQUAL(BT_NVTX_DOMAIN_IS_ENABLED, NVTX3EXT_CBID_nvtxDomainIsEnabled);
EQUAL(BT_NVTX_TYPE_INT, NVTX_PAYLOAD_ENTRY_TYPE_INT);
EQUAL(BT_NVTX_TYPE_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_SIZE);
EQUAL(BT_NVTX_TYPE_UINT64, NVTX_PAYLOAD_ENTRY_TYPE_UINT64);
EQUAL(BT_NVTX_SCHEMA_HAS_ENTRIES, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
EQUAL(BT_NVTX_SCHEMA_HAS_ID, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
EQUAL(BT_NVTX_FIRST_DYNAMIC_SCHEMA, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
