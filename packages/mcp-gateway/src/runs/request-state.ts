import {
  createRequestStateCodec,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { isRunId, type RequestState } from './order.ts'

/** Who may use a state, and for which method: `principal` is an id. */
type StateBinding = Readonly<Record<'method' | 'principal', string>>

/** Signs states, and verifies them. A state is valid for one principal and one method. */
export class RequestStates {
  readonly #key: Uint8Array
  readonly #ttlSeconds: number

  /** @param ttlMs time for which a state is accepted: the same as for paused runs */
  constructor(key: Uint8Array, ttlMs: number) {
    this.#key = key
    this.#ttlSeconds = Math.ceil(ttlMs / 1000)
  }

  mint(state: RequestState, binding: StateBinding): Promise<string> {
    return this.#codecFor(binding).mint(state, NO_CONTEXT)
  }

  /** @throws if the state was changed, has expired, or was made for another principal or method */
  verify(text: string, binding: StateBinding): Promise<RequestState> {
    return this.#codecFor(binding).verify(text, NO_CONTEXT)
  }

  #codecFor({ method, principal }: StateBinding): RequestStateCodec<RequestState> {
    const options = { key: this.#key, ttlSeconds: this.#ttlSeconds }
    return createRequestStateCodec({ ...options, bind: () => `${method}\0${principal}` })
  }
}

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the codec passes it to `bind` only, which does not read it
const NO_CONTEXT = {} as ServerContext

/** The round that a call says it answers: from a signed state, or from a `resume` argument. */
export type ResumeClaim = { readonly runId: string; readonly round: number } & (
  | { readonly type: 'state'; readonly tool: string | undefined; readonly args: string }
  | { readonly type: 'argument'; readonly key: string }
)

/** @returns `undefined` for anything but a state, or the `{ run }` of a `resume` argument */
export function parseClaim(value: unknown): ResumeClaim | undefined {
  if (!isRecord(value)) return undefined
  const { runId, round, tool, args, run } = value
  if (isRunId(runId) && typeof round === 'number' && typeof args === 'string') {
    return { type: 'state', runId, round, args, tool: typeof tool === 'string' ? tool : undefined }
  }
  const [name, count = '', key] = typeof run === 'string' ? run.split('.') : []
  return isRunId(name) && key !== undefined && /^[1-9]\d{0,5}$/.test(count)
    ? { type: 'argument', runId: name, round: Number(count), key }
    : undefined
}
