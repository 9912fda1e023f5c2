import type { HttpClient } from '../http/http-client.ts'
import { headerValue } from '../http/response-headers.ts'
import type { ResponseHeaders } from '../http/exchange.ts'
import { LegacySession } from '../legacy/legacy-session.ts'
import { deleteSession } from '../legacy/one-way.ts'
import { RequestIds } from '../legacy/request-ids.ts'
import { withIdentity } from '../modern/meta.ts'
import type { ClientIdentity } from '../modern/meta.ts'
import { modernHeaders } from '../modern/modern-headers.ts'
import { modernPost } from '../modern/modern-post.ts'
import type { PostOutcome } from '../modern/modern-post.ts'
import { isSessionId } from '../session-id.ts'
import { TransportError } from '../transport-error.ts'
import { isDiscoverResult } from './discover-result.ts'
import type { ProbeOutcome } from './probe-verdict.ts'

export interface ProbeOptions {
  readonly http: HttpClient
  readonly identity: ClientIdentity
  /** Limit for the whole probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

/** Asks a server, of which nothing is known, in the newest way: `server/discover`. */
export async function probe(options: ProbeOptions): Promise<ProbeOutcome> {
  const { http, identity, probeMs, signal } = options
  const request = {
    jsonrpc: '2.0',
    id: 'discover',
    method: 'server/discover',
    params: withIdentity({}, identity),
  } as const
  const closing = new AbortController()
  const url = http.url.display
  const startTimer = (): NodeJS.Timeout => setTimeout(() => closing.abort(), probeMs).unref()
  let timer = startTimer()
  const ends = AbortSignal.any([signal, closing.signal])
  try {
    const outcome = await modernPost({
      http,
      request,
      headers: modernHeaders(request, identity.protocolVersion),
      headersMs: 0,
      onMessage: () => {},
      onExchange: (exchange) => {
        const stop = (): void =>
          exchange.abort(
            signal.aborted
              ? new TransportError('CLOSED', 'The client gave up initialize', { url })
              : new TransportError('TIMEOUT', `${url} did not answer a probe in ${probeMs} ms`, {
                  url,
                }),
          )
        ends.addEventListener('abort', stop, { once: true })
        return !ends.aborted
      },
      onPause: (isPaused) => {
        clearTimeout(timer)
        if (!isPaused) timer = startTimer()
      },
    })
    endOrphan(http, outcome.headers)
    return outcomeOf(outcome)
  } finally {
    clearTimeout(timer)
  }
}

function outcomeOf(outcome: PostOutcome): ProbeOutcome {
  if (outcome.kind === 'failed') {
    const { error } = outcome
    const { status } = error
    if (status === undefined || error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT') {
      return { kind: 'failed', error }
    }
    return { kind: 'refused', status, error }
  }
  const { answer, status } = outcome
  if ('result' in answer && isDiscoverResult(answer.result)) {
    return { kind: 'discovered', result: answer.result }
  }
  const serverError = 'error' in answer ? answer.error : undefined
  const said = serverError?.message ?? 'something that is no DiscoverResult'
  const error = new TransportError('REJECTED', `The server answered a probe with: ${said}`, {
    status,
    serverError,
  })
  return { kind: 'refused', status, error, serverError }
}

/** Some servers mint a session for any request without one; nobody will use it (python-sdk #3228). */
function endOrphan(http: HttpClient, headers: ResponseHeaders | undefined): void {
  const id = headers === undefined ? undefined : headerValue(headers, 'mcp-session-id')
  if (!isSessionId(id)) return
  const orphan = new LegacySession({
    id,
    epoch: 0,
    protocolVersion: undefined,
    isResumed: false,
    ids: RequestIds.asTheyAre(),
  })
  deleteSession(http, orphan).catch(() => {}) // best effort
}
