/** Headers that speak of one connection; the rest is handed on as it came. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
])

/** Raw headers without those of the connection; `host` replaces the one that was sent. */
export function forwardedHeaders(raw: readonly string[], host?: string): string[] {
  const result: string[] = []
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? ''
    const value = raw[index + 1] ?? ''
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower)) continue
    result.push(name, lower === 'host' && host !== undefined ? host : value)
  }
  return result
}
