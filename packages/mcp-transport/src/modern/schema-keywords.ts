/** Keywords of JSON Schema whose values are data, whatever they look like. */
const DATA = new Set(['const', 'enum', 'default', 'examples'])

/** Keywords whose values have names of the author's choice as keys, and schemas as values. */
const MAPS = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
])

/** Whether what stands under a keyword is data, and no schema. */
export function isDataKeyword(keyword: string): boolean {
  return DATA.has(keyword)
}

/** Whether the keys under a keyword are names, and no keywords. */
export function isSchemaMap(keyword: string): boolean {
  return MAPS.has(keyword)
}
