import { abortable } from '../internal/abortable.ts'
import type { ArtifactCaller } from './artifact-caller.ts'
import type { Artifact } from './artifact.ts'
import type { Artifacts } from './artifacts.ts'

export interface RunArtifactsOptions {
  readonly artifacts: Artifacts
  readonly caller: ArtifactCaller
  readonly runId: string
  /** An earlier scope that the caller named. @default the caller's own, or one that the first file makes */
  readonly scope?: string | undefined
  readonly signal: AbortSignal
}

/** A file of the run. */
interface RunFile {
  readonly name: string
  /** @default by the name, else by the bytes */
  readonly mimeType?: string | undefined
  readonly data: AsyncIterable<Uint8Array>
}

/**
 * Keeps the files of one run. For callers without a name and without a session all of them go to one scope,
 * which the first file makes.
 */
export class RunArtifacts {
  readonly #options: RunArtifactsOptions
  /** Where files of this run go, once that is known. */
  #scope: string | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: RunArtifactsOptions) {
    this.#options = options
    this.#scope = options.scope
  }

  /** Where its files go, if that is known by now. */
  get scope(): string | undefined {
    return this.#scope
  }

  /** @throws GatewayError `QUOTA`, `LIMIT`; `NOT_FOUND`: not a scope of the caller's; the reason of the signal */
  write(file: RunFile): Promise<Artifact> {
    // One after the other: versions of a name come in the order of the calls.
    const written = this.#last.then(() => this.#write(file))
    this.#last = written.catch(() => {})
    return written
  }

  async #write({ name, mimeType, data }: RunFile): Promise<Artifact> {
    const { artifacts, caller, runId, signal } = this.#options
    const bytes = abortable(data, signal)
    const scope = this.#scope
    const written = await artifacts.write(caller, { name, mimeType, bytes, runId, scope })
    this.#scope = written.scope
    return written
  }
}
