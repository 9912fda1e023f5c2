import { GatewayError } from '../gateway-error.ts'
import type { OutputFile } from '../runs/agent-call.ts'
import { abortable } from '../abortable.ts'
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
  /** Fetches a file that is given by its URL, guarded against addresses that must not be reached. @default refused */
  readonly fetchFile?: FetchFile | undefined
}

type FetchFile = (url: string, signal: AbortSignal) => Promise<FetchedFile>

export interface FetchedFile {
  readonly bytes: AsyncIterable<Uint8Array>
  readonly mimeType?: string | undefined
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
  write(file: OutputFile): Promise<Artifact> {
    // One after the other: versions of a name come in the order of the calls.
    const written = this.#last.then(() => this.#write(file))
    this.#last = written.catch(() => {})
    return written
  }

  async #write(file: OutputFile): Promise<Artifact> {
    const { artifacts, caller, runId, signal } = this.#options
    const { bytes, mimeType } = await this.#bytesOf(file)
    const type = file.mimeType ?? mimeType
    const written = await artifacts.write(caller, {
      name: file.name,
      mimeType: type,
      bytes: abortable(bytes, signal),
      runId,
      scope: this.#scope,
    })
    this.#scope = written.scope
    return written
  }

  async #bytesOf({ data }: OutputFile): Promise<FetchedFile> {
    if (data instanceof Uint8Array) return { bytes: once(data) }
    if (!('url' in data)) return { bytes: data }
    const { fetchFile, signal } = this.#options
    if (!fetchFile)
      throw new GatewayError('UNAVAILABLE', 'This gateway fetches no files by their URL')
    return fetchFile(data.url, signal)
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
