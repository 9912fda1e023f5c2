import {
  createRequestStateCodec,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { isRunId } from '../run-id.ts'

/** Which round of which run is answered. Ids only: clients can read it, but not change it. */
export interface RequestState {
  readonly runId: string
  /** From 1. Each is answered once. */
  readonly round: number
  readonly tool: string
  /** Hash of the arguments: a continued call is the same call. */
  readonly args: string
}

export interface RequestStateOptions {
  /** At least 32 bytes, the same in all processes. */
  readonly key: Uint8Array | string
  /** Time for which a state is accepted, in milliseconds: the same as for waiting runs. */
  readonly ttlMs: number
}

/** Who may use a state, and for which method. */
export interface StateBinding {
  readonly method: string
  /** Id of the principal. */
  readonly principal: string
}

/** Signs states, and verifies them. A state is valid for one principal and one method. */
export class RequestStates {
  readonly #key: Uint8Array | string
  readonly #ttlSeconds: number

  constructor({ key, ttlMs }: RequestStateOptions) {
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
    return createRequestStateCodec<RequestState>({
      key: this.#key,
      ttlSeconds: this.#ttlSeconds,
      bind: () => `${method}\0${principal}`,
    })
  }
}

// eslint-disable-next-line typescript/no-unsafe-type-assertion -- the codec passes it to `bind` only, which does not read it
const NO_CONTEXT = {} as ServerContext

/** What a call says that it continues. A `resume` argument names run and round, and has the key to them. */
export interface ResumeClaim {
  readonly runId: string
  readonly round: number
  readonly tool?: string | undefined
  readonly args?: string | undefined
  /** Of a `resume` argument. */
  readonly key?: string | undefined
}

/**
 * How a `resume` argument names a round: an answer that is given twice is no answer to the next question. Ids of runs
 * stand in logs, and callers without a name are all one: whoever answers has to have read the question.
 */
export function handleOf({
  runId,
  round,
  key,
}: Required<Pick<ResumeClaim, 'runId' | 'round' | 'key'>>): string {
  return `${runId}.${round}.${key}`
}

/** @returns `undefined` for anything that is neither a state nor `{ run }` with such a handle */
export function resumeClaimFrom(value: unknown): ResumeClaim | undefined {
  if (!isRecord(value)) return undefined
  const { runId, round, tool, args, run } = value
  if (isRunId(runId) && typeof round === 'number' && typeof args === 'string') {
    return { runId, round, args, tool: typeof tool === 'string' ? tool : undefined }
  }
  const [name, count = '', key] = typeof run === 'string' ? run.split('.') : []
  return isRunId(name) && key !== undefined && /^[1-9]\d{0,5}$/.test(count)
    ? { runId: name, round: Number(count), key }
    : undefined
}
