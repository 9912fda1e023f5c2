import type { ChildProcess } from 'node:child_process'
import type { TransportError } from '@x/mcp-transport'
import type { Redaction } from './redaction.ts'
import { StderrRecord } from './stderr-record.ts'
import { StdioError } from './stdio-error.ts'

export interface ChildEvidenceOptions {
  readonly redaction: Redaction
  readonly log: (level: 'info' | 'warning', message: string) => void
}

const EXCERPT_CHARACTERS = 200

/**
 * What a child has shown of itself beside its messages: its standard error, and lines that are no message.
 * That is what an error can say of a child that gives no answer. Never with a secret in it.
 */
export class ChildEvidence {
  /** To be fed with what the child writes to its standard error. */
  readonly stderr: StderrRecord
  readonly #redaction: Redaction
  readonly #log: ChildEvidenceOptions['log']
  /** The start of the first line that was no message. */
  #garbage: string | undefined

  constructor({ redaction, log }: ChildEvidenceOptions) {
    this.#redaction = redaction
    this.#log = log
    this.stderr = new StderrRecord({ redaction, onLine: (line) => log('info', line) })
  }

  /** The child wrote a line that is no message of JSON-RPC. */
  skipped(line: string): void {
    const excerpt = this.#redaction.applyToStart(line, EXCERPT_CHARACTERS)
    this.#garbage ??= excerpt
    this.#log('warning', `a line that is no message of JSON-RPC was skipped: ${excerpt}`)
  }

  /** Why a child that still runs may give no answer; undefined if it has shown nothing. */
  get silence(): StdioError | undefined {
    const garbage = this.#garbageError()
    if (garbage !== undefined || this.stderr.tail === undefined) return garbage
    return this.error('TIMEOUT', 'its process gave no answer')
  }

  /** How a child has ended, whose requests get no answer any more. */
  endOf({ exitCode, signalCode }: ChildProcess): StdioError {
    const how =
      signalCode !== null
        ? `its process was ended by ${signalCode}`
        : exitCode !== null
          ? `its process ended with exit code ${exitCode}`
          : 'its process closed its input or output'
    return this.error('OUTCOME_UNKNOWN', how, this.#garbageError())
  }

  /** With the end of its standard error. */
  error(code: TransportError['code'], message: string, cause?: Error): StdioError {
    const stderr = this.stderr.tail
    return new StdioError(code, message, { stderr, ...(cause === undefined ? {} : { cause }) })
  }

  #garbageError(): StdioError | undefined {
    if (this.#garbage === undefined) return undefined
    const what = `its process wrote something that is no JSON-RPC: ${this.#garbage}`
    return this.error('UNEXPECTED_RESPONSE', what)
  }
}
