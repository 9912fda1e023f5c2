import { isRecord } from './is-record.ts'

/** Returns JSON with the keys of all objects in order, so that equal values give equal text. `undefined` gives `''`. */
export function canonicalJson(value: unknown): string {
  return (
    JSON.stringify(value, (_key, part: unknown) => (isRecord(part) ? sorted(part) : part)) ?? ''
  )
}

function sorted(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
