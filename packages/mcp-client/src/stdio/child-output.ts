import type { ChildProcess } from 'node:child_process'
import { StringDecoder } from 'node:string_decoder'
import type { TransportErrorCode } from '@x/mcp-transport'
import { StdioError } from '../errors.ts'

interface LineReaderOptions {
  readonly maxBytes: number
  readonly onLine: (line: string) => void
  /** Called once for each longer line, with its start. The rest of the line is skipped. */
  readonly onTooLong: (start: string) => void
}

/** Splits a stream of bytes into lines of UTF-8; invalid UTF-8 becomes U+FFFD. Holds at most one line. */
export class LineReader {
  readonly #options: LineReaderOptions
  readonly #decoder = new StringDecoder('utf8')
  #line = ''
  #bytes = 0

  constructor(options: LineReaderOptions) {
    this.#options = options
  }

  push(chunk: Buffer): void {
    const [rest = '', ...others] = this.#decoder.write(chunk).split('\n')
    this.#add(rest)
    for (const part of others) {
      this.#endLine()
      this.#add(part)
    }
  }

  /** Ends the stream. Bytes after the last line break are a line. */
  end(): void {
    this.#add(this.#decoder.end())
    if (this.#bytes > 0) this.#endLine()
  }

  #add(part: string): void {
    const { maxBytes, onTooLong } = this.#options
    const isSkipping = this.#bytes > maxBytes
    this.#bytes += Buffer.byteLength(part)
    if (isSkipping) return
    this.#line += part
    if (this.#bytes <= maxBytes) return
    const start = this.#line.slice(0, maxBytes)
    this.#line = ''
    onTooLong(start)
  }

  #endLine(): void {
    const { maxBytes, onLine } = this.#options
    const line = this.#line
    const isSkipped = this.#bytes > maxBytes
    this.#line = ''
    this.#bytes = 0
    if (!isSkipped) onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
  }
}

export interface SecretSources {
  /** Values that are long enough are treated as secrets. */
  readonly env: Readonly<Record<string, string>>
  /** Values of options such as `--api-key x` and `--token=x` are treated as secrets. */
  readonly args: readonly string[]
}

const MIN_SECRET_LENGTH = 8
const PLAIN_VARIABLE =
  /^(?:PATH|PATHEXT|HOME|SHELL|TERM|USER|LOGNAME|LANG|TZ|NODE_ENV|NODE_OPTIONS|DEBUG)$/i
const SECRET_OPTION = /^--?[\w-]*(?:key|token|secret|passw|credential|auth)[\w-]*(?:=(.*))?$/is
const REMOVED = '[removed]'

/** Removes the secrets of a server from texts that its process wrote. */
export class Redaction {
  /** Longest first: a secret may start with another secret. */
  readonly #secrets: readonly string[]

  constructor({ env, args }: SecretSources) {
    const found = [
      ...Object.entries(env).flatMap(([name, value]) =>
        PLAIN_VARIABLE.test(name) || value.length < MIN_SECRET_LENGTH ? [] : [value],
      ),
      ...findSecrets(args),
    ]
    // A key of several lines is written line by line.
    const lines = found.flatMap((value) =>
      value.split(/\r?\n/).filter((line) => line.length >= MIN_SECRET_LENGTH),
    )
    this.#secrets = [...new Set([...found, ...lines])].toSorted((a, b) => b.length - a.length)
  }

  /** Length of the longest secret. */
  get longest(): number {
    return this.#secrets[0]?.length ?? 0
  }

  applyTo(text: string): string {
    return this.#secrets.reduce((rest, secret) => rest.replaceAll(secret, REMOVED), text)
  }

  /** Redacts a text and cuts it to `length`, without showing a part of a secret at the cut. */
  applyToStart(text: string, length: number): string {
    const isCut = text.length > length
    const clean = this.applyTo(isCut ? text.slice(0, length + this.longest) : text)
    if (!isCut) return clean
    return `${clean.slice(0, Math.max(0, Math.min(length, clean.length - this.longest)))}…`
  }
}

function findSecrets(args: readonly string[]): readonly string[] {
  return args.flatMap((arg, index) => {
    const option = SECRET_OPTION.exec(arg)
    if (option === null) return []
    const value = option[1] ?? args[index + 1] ?? ''
    const isNextOption = option[1] === undefined && value.startsWith('-')
    return value.length < MIN_SECRET_LENGTH || isNextOption ? [] : [value]
  })
}

const KEPT_STDERR_BYTES = 64 * 1024
const TAIL_CHARACTERS = 4096
const LINE_CHARACTERS = 8192
const EXCERPT_CHARACTERS = 200

/**
 * Output of a child process that is not a message: its standard error, and invalid lines on its standard
 * output. Explains why the child does not answer. Secrets are removed.
 *
 * The standard error is always read, because a full pipe would stop the child. At most 64 KiB are kept.
 */
export class ChildOutput {
  readonly #redaction: Redaction
  readonly #log: (level: 'info' | 'warning', message: string) => void
  readonly #stderrLines: LineReader
  #stderr: Buffer = Buffer.alloc(0)
  #isCut = false
  /** Start of the first line that was not a message. */
  #invalidLine: string | undefined

  constructor(redaction: Redaction, log: (level: 'info' | 'warning', message: string) => void) {
    this.#redaction = redaction
    this.#log = log
    const onLine = (line: string): void => {
      if (line.trim() !== '') log('info', redaction.applyToStart(line, LINE_CHARACTERS))
    }
    this.#stderrLines = new LineReader({ maxBytes: KEPT_STDERR_BYTES, onLine, onTooLong: onLine })
  }

  pushStderr(chunk: Buffer): void {
    const room = Math.max(0, KEPT_STDERR_BYTES - chunk.length)
    this.#isCut ||= this.#stderr.length > room
    const old = room === 0 ? Buffer.alloc(0) : this.#stderr.subarray(-room)
    this.#stderr = Buffer.concat([old, chunk.subarray(-KEPT_STDERR_BYTES)])
    this.#stderrLines.push(chunk)
  }

  endStderr(): void {
    this.#stderrLines.end()
  }

  /** Records a line on standard output that is not a JSON-RPC message. */
  addInvalidLine(line: string): void {
    const excerpt = this.#redaction.applyToStart(line, EXCERPT_CHARACTERS)
    this.#invalidLine ??= excerpt
    this.#log('warning', `skipped a line that is not a JSON-RPC message: ${excerpt}`)
  }

  /** Last 4 KiB of the standard error, or undefined if it is blank. */
  get stderrTail(): string | undefined {
    const all = this.#redaction.applyTo(this.#stderr.toString())
    // After a cut, the text may start with a part of a character or of a secret.
    const clean = (this.#isCut ? all.slice(this.#redaction.longest + 1) : all).trim()
    return clean === '' ? undefined : clean.slice(-TAIL_CHARACTERS)
  }

  /** Why a running child may not answer, or undefined if there was no output. */
  get silence(): StdioError | undefined {
    const invalid = this.#invalidLineError()
    if (invalid !== undefined || this.stderrTail === undefined) return invalid
    return this.error('TIMEOUT', 'its process did not answer')
  }

  /** Error for the requests in flight of a child that has ended. */
  endOf({ exitCode, signalCode }: ChildProcess): StdioError {
    const how =
      signalCode !== null
        ? `its process was ended by ${signalCode}`
        : exitCode !== null
          ? `its process ended with exit code ${exitCode}`
          : 'its process closed its input or output'
    return this.error('OUTCOME_UNKNOWN', how, this.#invalidLineError())
  }

  /** Creates an error with the end of the standard error. */
  error(code: TransportErrorCode, message: string, cause?: Error): StdioError {
    return new StdioError(code, message, {
      stderr: this.stderrTail,
      ...(cause === undefined ? {} : { cause }),
    })
  }

  #invalidLineError(): StdioError | undefined {
    if (this.#invalidLine === undefined) return undefined
    const what = `its process wrote a line that is not JSON-RPC (${this.#invalidLine}): it must write its logs to standard error`
    return this.error('UNEXPECTED_RESPONSE', what)
  }
}
