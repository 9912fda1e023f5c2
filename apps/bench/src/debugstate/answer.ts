/** What is checked of an answer. */
export interface Answer {
  readonly status: number
  readonly etag: string | undefined
  /** One character a byte. */
  readonly body: string
}

/**
 * Reads an HTTP/1.1 answer, one character a byte, with a known length; `undefined` while there is more to
 * come.
 *
 * @throws Error for anything else, also for more than one answer.
 */
export function answerFrom(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end + 2)
  if (!head.startsWith('HTTP/1.1 ')) throw new Error(`No answer: ${head.slice(0, 40)}`)
  const status = Number(head.slice(9, 12))
  const bytes = status === 204 ? 0 : Number(LENGTH.exec(head)?.[1] ?? Number.NaN)
  if (Number.isNaN(bytes)) throw new Error(`An answer with ${status} and no length`)
  const body = text.slice(end + 4)
  if (body.length < bytes) return undefined
  if (body.length > bytes) throw new Error(`An answer with ${status} is longer than it says`)
  return { status, etag: ETAG.exec(head)?.[1], body }
}

const LENGTH = /\r\ncontent-length: *(\d+) *\r\n/i
const ETAG = /\r\netag: *("[^"\r]+") *\r\n/i
