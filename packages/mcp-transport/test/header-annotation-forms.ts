/** A tool whose schema has valid or invalid `x-mcp-header` annotations. */
export interface HeaderAnnotationForm {
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** Description of the fault; absent for a valid annotation. Clients leave out tools with invalid ones. */
  readonly fault?: string | undefined
}

const region = { type: 'string', 'x-mcp-header': 'Region' }
const holder = { type: 'object', properties: { region } }

const properties = (
  value: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, unknown>> = {},
): HeaderAnnotationForm['inputSchema'] => ({ type: 'object', properties: value, ...more })

const named = (name: unknown): HeaderAnnotationForm['inputSchema'] =>
  properties({ region: { type: 'string', 'x-mcp-header': name } })

const typed = (type: unknown): HeaderAnnotationForm['inputSchema'] =>
  properties({ region: { type, 'x-mcp-header': 'Region' } })

/** Places and forms of the annotation (2026-07-28, server/tools), by valid tool names. */
export const headerAnnotationForms: Readonly<Record<string, HeaderAnnotationForm>> = {
  string: { inputSchema: typed('string') },
  integer: { inputSchema: typed('integer') },
  boolean: { inputSchema: typed('boolean') },
  nested: { inputSchema: properties({ target: properties({ region }) }) },
  plain: { inputSchema: properties({ region: { type: 'string' } }) },
  on_number: { inputSchema: typed('number'), fault: 'a number has no exact form' },
  on_object: { inputSchema: typed('object'), fault: 'not a primitive type' },
  on_array: { inputSchema: typed('array'), fault: 'not a primitive type' },
  on_null: { inputSchema: typed('null'), fault: 'not a primitive type' },
  on_union: { inputSchema: typed(['string', 'null']), fault: 'not one type' },
  without_type: { inputSchema: typed(undefined), fault: 'not one type' },
  at_root: { inputSchema: { ...holder, 'x-mcp-header': 'Root' }, fault: 'not on a property' },
  in_items: {
    inputSchema: properties({ all: { type: 'array', items: holder } }),
    fault: 'reached through items',
  },
  in_one_of: { inputSchema: properties({}, { oneOf: [holder] }), fault: 'reached through oneOf' },
  in_any_of: { inputSchema: properties({}, { anyOf: [holder] }), fault: 'reached through anyOf' },
  in_all_of: { inputSchema: properties({}, { allOf: [holder] }), fault: 'reached through allOf' },
  in_if: { inputSchema: properties({}, { if: holder }), fault: 'reached through if' },
  in_not: { inputSchema: properties({}, { not: holder }), fault: 'reached through not' },
  in_defs: {
    inputSchema: properties({ target: { $ref: '#/$defs/target' } }, { $defs: { target: holder } }),
    fault: 'reached through $ref',
  },
  in_additional: {
    inputSchema: properties({}, { additionalProperties: region }),
    fault: 'reached through additionalProperties',
  },
  in_pattern: {
    inputSchema: properties({}, { patternProperties: { '^r': region } }),
    fault: 'reached through patternProperties',
  },
  empty: { inputSchema: named(''), fault: 'no name' },
  not_a_string: { inputSchema: named(7), fault: 'the name is no string' },
  not_a_token: { inputSchema: named('Re gion'), fault: 'the name is no HTTP token' },
  with_line_break: { inputSchema: named('Region\r\nHost'), fault: 'the name is no HTTP token' },
  twice: {
    inputSchema: properties({ region, area: { type: 'string', 'x-mcp-header': 'REGION' } }),
    fault: 'the name occurs twice',
  },
  twice_nested: {
    inputSchema: properties({ region, target: holder }),
    fault: 'the name occurs twice',
  },
}
