import type { IncomingMessage } from 'node:http'
import type { BodyText } from '../internal/exchange.ts'

const TOO_LARGE: BodyText = { ok: false, why: 'too-large' }
const BROKEN: BodyText = { ok: false, why: 'broken' }
const SLOW: BodyText = { ok: false, why: 'slow' }

/** Reads what a fetch-shaped request carries. Nothing past the limit is kept. Never throws. */
export async function readWebBody(request: Request, maxBytes: number): Promise<BodyText> {
  if (Number(request.headers.get('content-length')) > maxBytes) return TOO_LARGE
  if (request.body === null) return { ok: true, text: '' }
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of request.body) {
      size += chunk.byteLength
      if (size > maxBytes) return TOO_LARGE // leaving the loop cancels the stream
      chunks.push(chunk)
    }
  } catch {
    return BROKEN
  }
  return { ok: true, text: Buffer.concat(chunks, size).toString('utf8') }
}

/** How a body of a request of `node:http` is read. */
export interface BodyLimits {
  readonly maxBytes: number
  /** How long the body may take. */
  readonly timeoutMs: number
}

/** Reads what a request of `node:http` carries. Nothing past the limit is kept. Never throws. */
export function readNodeBody(
  request: IncomingMessage,
  { maxBytes, timeoutMs }: BodyLimits,
): Promise<BodyText> {
  if (Number(request.headers['content-length']) > maxBytes) return Promise.resolve(TOO_LARGE)
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let size = 0
    // Most bodies came in one piece with the head, and need no timer.
    const timer = request.complete ? undefined : setTimeout(() => settle(SLOW), timeoutMs)
    const settle = (result: BodyText): void => {
      clearTimeout(timer)
      request.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      resolve(result)
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.byteLength
      if (size > maxBytes) settle(TOO_LARGE)
      else chunks.push(chunk)
    }
    const onEnd = (): void => {
      const only = chunks.length === 1 ? chunks[0] : undefined
      settle({ ok: true, text: (only ?? Buffer.concat(chunks, size)).toString('utf8') })
    }
    const onBroken = (): void => settle(BROKEN)
    request.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}
