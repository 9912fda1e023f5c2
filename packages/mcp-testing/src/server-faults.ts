import type { ServerResponse } from 'node:http'
import { isRecord } from '@x/internal'
import type { CannedAnswer } from './canned-answer.ts'
import { sendAnswer } from './canned-answer.ts'
import type { OpenResponse } from './recorded-server.ts'
import type { RpcId } from './rpc-message.ts'

/** Answer that the client gets to a request that was executed. */
export type AnswerFault =
  | CannedAnswer // sent instead
  | 'unchanged' // with `until`: a late answer
  | 'twice' // the answer comes twice, as two events of a stream
  | 'other-id' // the answer has an id that the client never used
  | 'id-of-another-call' // the answer has the id of another call that waits for its answer
  | 'cut' // half of the answer, then the end of the connection
  | 'reset' // the connection is reset before the answer
  | 'hang' // no answer

/** A fault of a server, for some requests. */
export interface ServerFault {
  /** JSON-RPC method of the requests. @default 'tools/call' */
  readonly method?: string | undefined
  /** Only calls of this tool. @default all */
  readonly tool?: string | undefined
  /** Number of requests. @default 1 */
  readonly times?: number | undefined
  /** The request waits until this has settled. With `answer`, the request is executed and its answer waits. */
  readonly until?: Promise<unknown> | undefined
  /** Sent instead of handling the request: nothing is executed. */
  readonly instead?: CannedAnswer | 'reset' | 'hang' | undefined
  /** Sent instead of the right answer. The request is executed first. */
  readonly answer?: AnswerFault | undefined
}

/** Keeps what a handler writes to `response` from the client. Resolves when the handler ends it. */
export function captureAnswer(
  response: ServerResponse,
): Promise<{ status: number; headers: Record<string, string>; body: string }> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const head = { status: 200, headers: {} }
    const add = (chunk: unknown): void => {
      if (typeof chunk === 'string' || chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk))
    }
    const writers = {
      writeHead(status: number, headers: Record<string, string> = {}) {
        Object.assign(head, { status, headers })
        return response
      },
      flushHeaders() {},
      write(chunk: unknown) {
        add(chunk)
        return true
      },
      end(chunk?: unknown) {
        add(chunk)
        for (const name of Object.keys(writers)) Reflect.deleteProperty(response, name)
        resolve({ ...head, body: Buffer.concat(chunks).toString() })
        return response
      },
    }
    Object.assign(response, writers)
  })
}

/** Sends an answer as the fault says. `otherId` is the id of another call. */
export function sendFaultyAnswer(
  response: OpenResponse,
  answer: Awaited<ReturnType<typeof captureAnswer>>,
  fault: { readonly kind: AnswerFault; readonly rpcId: RpcId; readonly otherId: RpcId },
): void {
  const { kind, rpcId, otherId } = fault
  const { status, headers, body } = answer
  const { raw } = response
  const send = (text: string): void => void raw.writeHead(status, headers).end(text)
  if (typeof kind === 'object') return sendAnswer(raw, kind, rpcId)
  switch (kind) {
    case 'hang':
      return
    case 'reset':
      return response.reset()
    case 'cut':
      raw.writeHead(status, headers).write(body.slice(0, body.length / 2))
      return response.breakOff()
    case 'twice': {
      const events = body.startsWith('{') ? `data: ${body}\n\n` : body
      const last = events.trimEnd().slice(events.trimEnd().lastIndexOf('\n\n') + 1)
      raw.writeHead(status, { ...headers, 'content-type': 'text/event-stream' })
      raw.end(`${events}${last.trimStart()}\n\n`)
      return
    }
    case 'other-id':
      return send(withId(body, `${String(rpcId)}-unused`))
    case 'id-of-another-call':
      return send(withId(body, otherId))
    case 'unchanged':
      return send(body)
  }
}

/** The body with another id in its answers, which are JSON or the data of events. */
function withId(body: string, id: RpcId): string {
  return body.replaceAll(
    /^(data: )?(\{.*\})$/gm,
    (line, prefix: string | undefined, json: string) => {
      const message: unknown = JSON.parse(json)
      const isAnswer = isRecord(message) && ('result' in message || 'error' in message)
      return isAnswer ? `${prefix ?? ''}${JSON.stringify({ ...message, id })}` : line
    },
  )
}
