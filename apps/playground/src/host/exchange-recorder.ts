import { BoundedMap } from '@x/internal'
import { startRecordingProxy } from '@x/mcp-testing'
import type { Exchange as RecordedExchange, RecordingProxy } from '@x/mcp-testing'
import { Classifier, labelOf } from './classify.ts'
import type { Exchange, ExchangeDetails } from '../timeline/events.ts'
import { maskHeaders, maskText, shortId } from './mask.ts'

/** Bytes of each body that are kept. */
const BODY_BYTES = 65_536
/** Exchanges whose headers and bodies are kept. */
const KEPT_DETAILS = 2000
/** Session ids that are shortened in bodies. */
const KEPT_IDS = 1000

/** Who sends requests. */
export interface Caller {
  readonly from: Exchange['from']
  /** Its process id now. */
  readonly pid: () => number
}

/** Records the exchanges of all proxies under one sequence of ids, and keeps what they show when they are opened. */
export class ExchangeRecorder {
  readonly #classifier = new Classifier()
  /** Id of each exchange, and the process that has sent it. */
  readonly #seen = new WeakMap<RecordedExchange, { readonly id: number; readonly sender: string }>()
  readonly #kept = new BoundedMap<number, RecordedExchange>(KEPT_DETAILS)
  readonly #sessionIds = new BoundedMap<string, true>(KEPT_IDS)
  readonly #secrets: readonly string[]
  readonly #onExchange: (exchange: Exchange) => void
  #count = 0

  /** `secrets` are shown nowhere. */
  constructor(secrets: readonly string[], onExchange: (exchange: Exchange) => void) {
    this.#secrets = secrets
    this.#onExchange = onExchange
  }

  /**
   * Starts a proxy for the requests of one caller in front of the server with the name `to`. `target` is called
   * for each exchange, and once at the start.
   */
  async startProxy(target: () => string, to: string, caller: Caller): Promise<RecordingProxy> {
    const proxy = await startRecordingProxy(target, { keepExchanges: 0, keepBodies: BODY_BYTES })
    proxy.on(({ exchange }) => this.#record(exchange, to, caller))
    return proxy
  }

  /** Returns headers and bodies without secrets, or undefined if they are not kept any more. */
  detailsOf(id: number): ExchangeDetails | undefined {
    const recorded = this.#kept.get(id)
    if (recorded === undefined) return undefined
    const sensitive = { ids: [...this.#sessionIds.keys()], secrets: this.#secrets }
    const show = (message: RecordedExchange['request']): ExchangeDetails['request'] => ({
      headers: maskHeaders(message?.headers ?? {}, sensitive),
      body: maskText(message?.body ?? '', sensitive),
      isCut: (message?.bytes ?? 0) > BODY_BYTES,
    })
    return {
      request: show(recorded.request),
      response: recorded.response && show(recorded.response),
    }
  }

  #record(recorded: RecordedExchange, to: string, { from, pid }: Caller): void {
    const seen = this.#seen.get(recorded) ?? { id: ++this.#count, sender: `${from} ${pid()}` }
    this.#seen.set(recorded, seen)
    const { id, sender } = seen
    const sessionId = recorded.sessionId ?? recorded.assignedSessionId
    if (sessionId !== undefined) this.#sessionIds.set(sessionId, true)
    const exchange: Exchange = {
      id,
      from,
      to,
      kind: this.#classifier.kindOf(sender, to, recorded),
      label: labelOf(to, recorded),
      httpMethod: recorded.httpMethod,
      rpcMethod: recorded.rpcMethod,
      toolName: recorded.toolName,
      sessionId: sessionId && shortId(sessionId),
      revision: recorded.protocolVersion,
      startedAt: recorded.startedAt,
      durationMs: recorded.ms === undefined ? undefined : Math.round(recorded.ms * 10) / 10,
      status: recorded.status,
      problem: PROBLEMS[recorded.end ?? 'complete'],
      requestBytes: recorded.request?.bytes ?? 0,
      responseBytes: recorded.response?.bytes ?? 0,
    }
    this.#kept.set(id, recorded)
    this.#onExchange(exchange)
  }
}

const PROBLEMS: Readonly<Record<NonNullable<RecordedExchange['end']>, Exchange['problem']>> = {
  complete: undefined,
  'client-gone': 'client left',
  'server-gone': 'connection broke',
  cut: 'connection broke',
}
