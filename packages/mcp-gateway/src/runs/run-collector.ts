import { GatewayError } from '../gateway-error.ts'
import type { ArtifactWriter, OutputFile } from './agent-call.ts'
import type { AgentUpdate, FinalUpdate } from './agent-update.ts'
import { isFinal } from './agent-update.ts'
import type { ProgressFeed } from './progress-feed.ts'
import type { RunFiles } from './result-files.ts'
import type { RunAnswer } from './run-result.ts'

export interface RunCollectorOptions {
  readonly runId: string
  readonly files: RunFiles | undefined
  readonly feed: ProgressFeed | undefined
  /** Of the answer; more is cut off, and said to be. @default 10_485_760 */
  readonly maxTextBytes?: number | undefined
}

/** Collects what an agent says in one run, and passes on as progress what can be shown early. */
export class RunCollector {
  readonly #options: RunCollectorOptions
  readonly #maxTextBytes: number
  readonly #pieces: string[] = []
  readonly #notes: string[] = []
  #bytes = 0

  constructor(options: RunCollectorOptions) {
    this.#options = options
    this.#maxTextBytes = options.maxTextBytes ?? 10 * 1024 * 1024
  }

  /** @returns the update if it is the last one */
  async take(update: AgentUpdate): Promise<FinalUpdate | undefined> {
    if (isFinal(update)) return update
    const { feed } = this.#options
    switch (update.type) {
      case 'text':
        this.#addText(update.text)
        feed?.text(update.text)
        break
      case 'status':
        feed?.line(update.text)
        break
      case 'file':
        await this.#keep(update.file)
        break
    }
    return undefined
  }

  /** @throws what the files throw */
  async answer(done: Extract<FinalUpdate, { type: 'done' }>): Promise<RunAnswer> {
    const { runId, files } = this.#options
    const text = done.text === undefined ? this.#pieces.join('') : this.#cut(done.text)
    return {
      runId,
      text,
      structured: done.structured,
      blocks: (await files?.blocks()) ?? [],
      notes: this.#notes,
    }
  }

  #addText(text: string): void {
    if (this.#bytes > this.#maxTextBytes) return
    this.#bytes += Buffer.byteLength(text)
    this.#pieces.push(text)
    if (this.#bytes > this.#maxTextBytes) this.#noteCut()
  }

  #cut(text: string): string {
    if (Buffer.byteLength(text) <= this.#maxTextBytes) return text
    this.#noteCut()
    return Buffer.from(text).subarray(0, this.#maxTextBytes).toString()
  }

  #noteCut(): void {
    this.#notes.push('The answer was longer than a result may be: the rest of it is missing.')
  }

  /** For the agent itself. @throws GatewayError `QUOTA`, `LIMIT`, `UNAVAILABLE` */
  readonly write: ArtifactWriter['write'] = async (file) => {
    const { files, feed } = this.#options
    if (files === undefined) throw new GatewayError('UNAVAILABLE', 'This gateway keeps no files')
    const written = await files.write(file)
    const { version } = written
    feed?.line(version > 1 ? `File: ${file.name} (version ${version})` : `File: ${file.name}`)
    return written
  }

  /** A file without room costs the file, not the answer. */
  async #keep(file: OutputFile): Promise<void> {
    try {
      await this.write(file)
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      this.#notes.push(`The file "${file.name}" could not be kept: ${error.message}`)
    }
  }
}
