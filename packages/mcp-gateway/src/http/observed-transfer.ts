import type { Clock } from '../internal/clock.ts'
import { countedBody } from './counted-body.ts'
import type { HttpExchange } from '../internal/exchange.ts'
import type { FileTransfer, GatewayObserver } from '../internal/observer.ts'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { Artifact } from '../files/artifacts.ts'

export interface ObservedTransferOptions {
  readonly exchange: HttpExchange
  /** Who was verified; none where only a link says what is allowed. */
  readonly caller: ArtifactCaller | undefined
  readonly clock: Clock
  readonly observer: Pick<GatewayObserver, 'fileTransferred'>
}

/** How much of a hash tells files apart in a log. */
const SHOWN_DIGITS = 12

const OUTCOMES: Readonly<Record<number, string>> = {
  400: 'invalid',
  404: 'not_found',
  405: 'invalid',
  413: 'too_large',
  416: 'invalid',
  503: 'unavailable',
  507: 'no_room',
}

/** Tells of one upload or download when it is over: an upload once it is answered, a download once it was taken. */
export class ObservedTransfer {
  readonly #options: ObservedTransferOptions
  readonly #startedAt: number
  #artifact: Artifact | undefined
  #caller: ArtifactCaller | undefined

  constructor(options: ObservedTransferOptions) {
    this.#options = options
    this.#startedAt = options.clock.now()
    this.#caller = options.caller
  }

  /** Which file it is about, and for whom, once that is known. */
  readonly onFile = (artifact: Artifact, caller: ArtifactCaller | undefined): void => {
    this.#artifact = artifact
    this.#caller = caller
  }

  /** @returns the answer to send in its place */
  answered(response: Response): Response {
    const { method, signal } = this.#options.exchange.request
    if (method === 'PUT') {
      this.#tell('upload', { bytes: this.#artifact?.size ?? 0, outcome: outcomeOf(response) })
      return response
    }
    if (method === 'GET' && response.ok) {
      return countedBody(response, signal, ({ bytes, isComplete }) => {
        this.#tell('download', { bytes, outcome: isComplete ? 'ok' : 'lost' })
      })
    }
    if (response.status >= 400) this.#tell('download', { bytes: 0, outcome: outcomeOf(response) })
    return response // of others nothing was taken
  }

  #tell(
    direction: FileTransfer['direction'],
    { bytes, outcome }: Pick<FileTransfer, 'bytes' | 'outcome'>,
  ): void {
    const { exchange, caller, clock, observer } = this.#options
    observer.fileTransferred?.({
      direction,
      principal: this.#caller?.principal.id,
      isAnonymous: this.#caller?.principal.isAnonymous ?? false,
      isLinked: caller === undefined,
      file: this.#artifact?.sha256.slice(0, SHOWN_DIGITS),
      outcome,
      bytes,
      durationMs: clock.now() - this.#startedAt,
      address: exchange.address,
    })
  }
}

function outcomeOf({ ok, status }: Response): string {
  return ok ? 'ok' : (OUTCOMES[status] ?? 'failed')
}
