import type { ByteRange } from '../store/gateway-store.ts'

/**
 * What a `Range` header asks of so many bytes (RFC 9110, section 14.2). `undefined`: all of them, also where
 * it asks for several parts, or for what is no range; `'unsatisfiable'`: none of it is there.
 */
export function byteRangeFrom(
  header: string | null,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (from === '' && to === '') return undefined
  if (from === '') {
    const count = Math.min(Number(to), size)
    return count === 0 ? 'unsatisfiable' : { first: size - count, last: size - 1 }
  }
  const first = Number(from)
  const last = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (to !== '' && Number(to) < first) return undefined
  return first >= size ? 'unsatisfiable' : { first, last }
}
