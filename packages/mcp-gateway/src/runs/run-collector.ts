import { GatewayError } from '../errors.ts'
import type { AgentArtifacts, OutputFile, RunFiles } from '../files/result-files.ts'
import type { AgentUpdate, FinalUpdate } from '../agents/agent-update.ts'
import { isFinal } from '../agents/agent-update.ts'
import type { ProgressFeed } from './progress-feed.ts'
import { RunFailure } from '../agents/run-failure.ts'
import type { RunAnswer } from './run-result.ts'

export interface RunCollectorOptions {
  readonly runId: string
  readonly files: RunFiles | undefined
  readonly feed: ProgressFeed | undefined
  /** Bytes kept of a text that comes in pieces; the rest is lost, and the result says so. @default 10_485_760 */
  readonly maxTextBytes?: number | undefined
}

/** Collects what an agent says in one run, and passes on as progress what can be shown early. */
export class RunCollector {
  readonly #options: RunCollectorOptions
  readonly #maxTextBytes: number
  readonly #pieces: string[] = []
  readonly #notes: string[] = []
  #bytes = 0
  #isCut = false
  #isOver = false
  #lostFiles = 0

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
        feed?.line(shortened(update.text))
        break
      case 'file':
        await this.#keep(update.file)
        break
    }
    return undefined
  }

  answer({ text, structured }: Extract<FinalUpdate, { type: 'done' }>): RunAnswer {
    const { runId, files } = this.#options
    const isCut = text === undefined && this.#isCut
    return {
      runId,
      text: text ?? this.#pieces.join(''),
      structured,
      files,
      notes: [...this.#notes, ...this.#lostNote(), ...(isCut ? [CUT] : [])],
    }
  }

  /** What the agent still does is not heard any more. */
  close(): void {
    this.#isOver = true
  }

  #addText(text: string): void {
    if (this.#isCut) return
    const piece = beginningOf(text, this.#maxTextBytes - this.#bytes)
    this.#isCut = piece.length < text.length
    this.#bytes += Buffer.byteLength(piece)
    this.#pieces.push(piece)
  }

  #lostNote(): readonly string[] {
    const more = this.#lostFiles - MAX_NOTES
    return more > 0 ? [`${more} more files could not be kept.`] : []
  }

  /** Files for the agent itself. They throw GatewayError `QUOTA`, `LIMIT`, `UNAVAILABLE`, and `CLOSED` after the run. */
  readonly artifacts: AgentArtifacts = {
    write: async (file) => {
      try {
        return await this.#write(file)
      } catch (error) {
        if (!GatewayError.is(error) || error.code !== 'NOT_FOUND') throw error
        // The caller named a scope that it does not own. The agent cannot change that.
        throw new RunFailure('invalid_arguments', `${error.message}.`, { cause: error })
      }
    },
    read: async (name, version) => {
      this.#assertOpen()
      return this.#options.files?.read(name, version)
    },
    list: async () => {
      this.#assertOpen()
      return this.#options.files?.list() ?? []
    },
  }

  #assertOpen(): void {
    if (this.#isOver) throw new GatewayError('CLOSED', 'The run has ended, and its files with it')
  }

  async #write(file: OutputFile): ReturnType<AgentArtifacts['write']> {
    const { files, feed } = this.#options
    this.#assertOpen()
    if (files === undefined) throw new GatewayError('UNAVAILABLE', 'This gateway keeps no files')
    const written = await files.write(file)
    const { version } = written
    const name = shortened(file.name)
    feed?.line(version > 1 ? `File: ${name} (version ${version})` : `File: ${name}`)
    return written
  }

  /** A file without room costs the file, not the answer. */
  async #keep(file: OutputFile): Promise<void> {
    try {
      await this.#write(file)
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      if (this.#lostFiles++ >= MAX_NOTES) return
      this.#notes.push(`The file "${shortened(file.name)}" could not be kept: ${error.message}`)
    }
  }
}

const CUT = 'The agent wrote a longer text than is kept of a stream: the rest of it is missing.'
/** What is told of files one by one; of others, how many there are. */
const MAX_NOTES = 20
const MAX_LINE = 1000
/** Of a character that was cut in two. */
const HALF = /[\uD800-\uDBFF]$/

function shortened(text: string): string {
  return text.length <= MAX_LINE ? text : `${text.slice(0, MAX_LINE).replace(HALF, '')}…`
}

/** As much of a text as has so many bytes, in whole characters. */
function beginningOf(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes))
  return text.slice(0, read)
}
