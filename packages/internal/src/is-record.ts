/** Whether a value is an object that is not an array: what JSON calls an object. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns whether a value is an object, also an array. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
