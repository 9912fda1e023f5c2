import { isRecord } from '@x/internal'

/**
 * Returns a value without halves of surrogate pairs in its texts and names: each becomes U+FFFD. Providers refuse a
 * request with such text, and all later ones of the thread, which contain it as well (playwright-mcp#1410,
 * claude-code#3277). Returns the same object if nothing changes.
 */
export function wellFormed<T>(value: T): T
export function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (Array.isArray(value)) {
    const items: unknown[] = value.map((item: unknown) => wellFormed(item))
    return items.some((item, index) => item !== value[index]) ? items : value
  }
  if (!isRecord(value)) return value
  let isChanged = false
  const entries = Object.entries(value).map(([name, inner]): [string, unknown] => {
    const entry: [string, unknown] = [name.toWellFormed(), wellFormed(inner)]
    if (entry[0] !== name || entry[1] !== inner) isChanged = true
    return entry
  })
  return isChanged ? Object.fromEntries(entries) : value
}

/** Returns at most `length` characters, and does not split a surrogate pair. */
export function startOf(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  const isHighSurrogate = last >= 0xd8_00 && last <= 0xdb_ff
  return text.slice(0, isHighSurrogate ? length - 1 : length)
}
