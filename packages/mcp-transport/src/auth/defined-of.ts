/** A copy without the fields that are undefined. */
export function definedOf<T extends object>(value: T): T {
  const copy = { ...value }
  for (const [name, field] of Object.entries(value)) {
    if (field === undefined) Reflect.deleteProperty(copy, name)
  }
  return copy
}
