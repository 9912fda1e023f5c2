/** What is checked of an answer. */
export interface Answer {
  readonly status: number
  readonly etag: string | undefined
  /** Of MCP, where one was opened. */
  readonly session?: string | undefined
  /** One character a byte. */
  readonly body: string
}

/**
 * Reads an HTTP/1.1 answer, one character a byte, with a known length or in chunks; `undefined` while there
 * is more to come.
 *
 * @throws Error for anything else, also for more than one answer.
 */
export function answerFrom(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end + 2)
  if (!head.startsWith('HTTP/1.1 ')) throw new Error(`No answer: ${head.slice(0, 40)}`)
  const status = Number(head.slice(9, 12))
  const session = SESSION.exec(head)?.[1]
  const etag = ETAG.exec(head)?.[1]
  if (CHUNKED.test(head)) {
    const chunked = chunksFrom(text.slice(end + 4))
    return chunked === undefined ? undefined : { status, etag, session, body: chunked }
  }
  const bytes = status === 204 ? 0 : Number(LENGTH.exec(head)?.[1] ?? Number.NaN)
  if (Number.isNaN(bytes)) throw new Error(`An answer with ${status} and no length`)
  const body = text.slice(end + 4)
  if (body.length < bytes) return undefined
  if (body.length > bytes) throw new Error(`An answer with ${status} is longer than it says`)
  return { status, etag, session, body }
}

/** @returns undefined while there is more to come */
function chunksFrom(text: string): string | undefined {
  let body = ''
  for (let at = 0; ;) {
    const line = text.indexOf('\r\n', at)
    if (line === -1) return undefined
    const bytes = Number.parseInt(text.slice(at, line), 16)
    if (Number.isNaN(bytes)) throw new Error('No answer: a chunk without a length')
    const next = line + 2 + bytes + 2
    if (text.length < next) return undefined
    if (bytes === 0) {
      if (text.length > next) throw new Error('An answer is longer than it says')
      return body
    }
    body += text.slice(line + 2, next - 2)
    at = next
  }
}

const LENGTH = /\r\ncontent-length: *(\d+) *\r\n/i
const ETAG = /\r\netag: *("[^"\r]+") *\r\n/i
const CHUNKED = /\r\ntransfer-encoding: *chunked *\r\n/i
const SESSION = /\r\nmcp-session-id: *([^\r]+?) *\r\n/i
