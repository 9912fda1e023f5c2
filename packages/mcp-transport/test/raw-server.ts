import type { Dispatcher } from 'undici'
import { json, resultOf, scriptedServer, URL_OF_SERVER } from './scripted-server.ts'
import type { Seen } from './scripted-server.ts'

export interface RawServer {
  readonly url: string
  readonly dispatcher: Dispatcher
  /** Refuses this session from now on. */
  refuse(sessionId: string): void
  /** Refuses the next message of this method with 503. */
  refuseNext(method: string): void
  /** Answers the next call that is not refused. */
  answerNext(answer: (id: Seen['id']) => Response): void
  /** Messages of a method. */
  count(method: string): number
}

/** A scripted server that can forget one session, and fail one message. */
export function rawServer(): RawServer {
  const unknown = new Set<string>()
  const failing = new Set<string>()
  let next: ((id: Seen['id']) => Response) | undefined
  const server = scriptedServer((seen) => {
    if (unknown.has(seen.sessionId ?? '')) return new Response(null, { status: 404 })
    if (failing.delete(seen.what)) return new Response('Later', { status: 503 })
    if (seen.what !== 'POST tools/call') return undefined
    const answer = next
    next = undefined
    return answer?.(seen.id) ?? json(resultOf(seen, { content: [] }))
  })
  return {
    url: URL_OF_SERVER,
    dispatcher: server.dispatcher,
    refuse: (sessionId) => void unknown.add(sessionId),
    refuseNext: (method) => void failing.add(`POST ${method}`),
    answerNext: (answer) => {
      next = answer
    },
    count: (method) => server.count(`POST ${method}`),
  }
}
