import { closedError } from '../closed-error.ts'
import type { HttpClient } from '../http/http-client.ts'
import type { Exchange, ResponseHeaders } from '../http/exchange.ts'
import type { Lingering } from '../http/lingering.ts'
import { headerValue, retryAfterMs } from '../http/response-headers.ts'
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
  /** Takes a stream that goes on after its answer. */
  readonly lingering: Lingering
}

/** Asks a server, of which nothing is known, in the newest way: `server/discover`. */
export async function probe(options: ProbeOptions): Promise<ProbeOutcome> {
  const { http, identity, probeMs, signal, lingering } = options
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
  let exchange: Exchange | undefined
  const stop = (): void =>
    exchange?.abort(
      signal.aborted
        ? closedError('The client gave up initialize', url)
        : new TransportError('TIMEOUT', `${url} did not answer a probe in ${probeMs} ms`, { url }),
    )
  ends.addEventListener('abort', stop, { once: true })
  try {
    const outcome = await modernPost({
      http,
      request,
      headers: modernHeaders(request, identity.protocolVersion),
      headersMs: 0,
      lingering,
      onMessage: () => {},
      onExchange: (started) => {
        exchange = started
        return !ends.aborted
      },
      onPause: (isPaused) => {
        clearTimeout(timer)
        if (!isPaused) timer = startTimer()
      },
    })
    const said = outcomeOf(outcome, url)
    if (said.kind !== 'discovered') endOrphan(http, outcome.headers)
    return said
  } finally {
    clearTimeout(timer)
    ends.removeEventListener('abort', stop)
  }
}

function outcomeOf(outcome: PostOutcome, url: string): ProbeOutcome {
  if (outcome.kind === 'failed') {
    const { error, isWhole } = outcome
    const { status } = error
    const isCut = isWhole !== true && (error.code === 'OUTCOME_UNKNOWN' || error.code === 'TIMEOUT')
    return status === undefined || isCut
      ? { kind: 'failed', error }
      : { kind: 'refused', status, error }
  }
  const { answer, status, headers } = outcome
  if ('result' in answer && isDiscoverResult(answer.result)) {
    return { kind: 'discovered', result: answer.result }
  }
  const serverError = 'error' in answer ? answer.error : undefined
  const said = serverError?.message ?? 'something that is no DiscoverResult'
  const error = new TransportError('REJECTED', `${url} answered a probe with: ${said}`, {
    url,
    status,
    serverError,
    retryAfterMs: retryAfterMs(headers),
  })
  return { kind: 'refused', status, error, serverError }
}

/** Some servers mint a session for any request without one; nobody will use it (python-sdk #3228). */
export function endOrphan(http: HttpClient, headers: ResponseHeaders | undefined): void {
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
