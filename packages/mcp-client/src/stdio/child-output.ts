import type { ChildProcess } from 'node:child_process'
import { StringDecoder } from 'node:string_decoder'
import type { TransportErrorCode } from '@x/mcp-transport'
import { StdioError } from '../errors.ts'
import type { ServerCommand } from '../server-config.ts'

const MIN_SECRET_LENGTH = 8
/** Length of the parts of a secret that an excerpt must not show. */
const PART_LENGTH = 4
const SECRET_OPTION = /^--?[\w-]*(?:key|token|secret|passw|credential|auth)[\w-]*(?:=(.*))?$/is

/**
 * Returns the texts that the output of a server must not show: the values of its `env`, and arguments such as
 * `--token x`. Values with fewer than 8 characters are shown, because they are also parts of other words.
 */
function findSecrets({ env, args }: Pick<ServerCommand, 'env' | 'args'>): readonly string[] {
  const inArgs = args.flatMap((arg, index) => {
    const option = SECRET_OPTION.exec(arg)
    return option === null ? [] : [option[1] ?? args[index + 1] ?? '']
  })
  // A key of several lines is written line by line.
  const found = [...Object.values(env), ...inArgs].flatMap((text) => [text, ...text.split(/\r?\n/)])
  const secrets = found.filter((text) => text.length >= MIN_SECRET_LENGTH)
  // Longest first: a secret may start with another secret.
  return [...new Set(secrets)].toSorted((a, b) => b.length - a.length)
}

const KEPT_CHARACTERS = 64 * 1024
const TAIL_CHARACTERS = 4096
const LINE_CHARACTERS = 8192

/**
 * Output of a child process that is not a message: its standard error, and invalid lines on its standard
 * output. Explains why the child does not answer. Secrets are removed.
 *
 * The standard error is always read, because a full pipe would stop the child. At most 64 Ki characters are kept.
 */
export class ChildOutput {
  readonly #secrets: readonly string[]
  readonly #log: (level: 'info' | 'warning', message: string) => void
  readonly #decoder = new StringDecoder('utf8')
  /** End of the standard error. */
  #stderr = ''
  /** Start of the line that is being read. */
  #line = ''
  #invalidLine: string | undefined

  constructor(
    server: Pick<ServerCommand, 'env' | 'args'>,
    log: (level: 'info' | 'warning', message: string) => void,
  ) {
    this.#secrets = findSecrets(server)
    this.#log = log
  }

  pushStderr(chunk: Buffer): void {
    const text = this.#decoder.write(chunk)
    this.#stderr = (this.#stderr + text).slice(-KEPT_CHARACTERS)
    const [rest = '', ...others] = text.split('\n')
    this.#addToLine(rest)
    for (const part of others) {
      this.endStderr()
      this.#addToLine(part)
    }
  }

  /** Logs the last line, which may have no line break. */
  endStderr(): void {
    const isCut = this.#line.length === KEPT_CHARACTERS
    const all = this.#redact(this.#line)
    const clean = (isCut ? all.slice(0, Math.max(0, all.length - this.#longest)) : all).trimEnd()
    this.#line = ''
    if (clean === '') return
    const isLong = clean.length > LINE_CHARACTERS
    this.#log('info', isLong ? `${clean.slice(0, LINE_CHARACTERS)}…` : clean)
  }

  /** Records a line on standard output that is not a JSON-RPC message. */
  addInvalidLine(error: Error): void {
    const { message } = error
    // The message of a `SyntaxError` quotes the line, and may cut a secret in it.
    const isSafe = error instanceof SyntaxError && !this.#secrets.some((it) => hasPart(message, it))
    this.#invalidLine = isSafe ? ` (${message})` : ''
    this.#log('warning', `skipped a line that is not a JSON-RPC message${this.#invalidLine}`)
  }

  /** Last 4 Ki characters of the standard error, or undefined if it is blank. */
  get stderrTail(): string | undefined {
    const isCut = this.#stderr.length === KEPT_CHARACTERS
    const clean = this.#redact(this.#stderr)
    const tail = (isCut ? clean.slice(this.#longest) : clean).trim()
    return tail === '' ? undefined : tail.slice(-TAIL_CHARACTERS)
  }

  /** Why a running child may not answer, or undefined if there was no output. */
  get silence(): StdioError | undefined {
    const invalid = this.#invalidLineError()
    if (invalid !== undefined || this.stderrTail === undefined) return invalid
    return this.error('TIMEOUT', 'its process did not answer')
  }

  /** Error for the requests in flight of a child that has ended. */
  endOf(child: Pick<ChildProcess, 'exitCode' | 'signalCode'> | undefined): StdioError {
    const { exitCode = null, signalCode = null } = child ?? {}
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

  /** Length of the longest secret. A text that was cut may have a part of a secret at the cut. */
  get #longest(): number {
    return this.#secrets[0]?.length ?? 0
  }

  #addToLine(part: string): void {
    this.#line = (this.#line + part).slice(0, KEPT_CHARACTERS)
  }

  #redact(text: string): string {
    return this.#secrets.reduce((rest, secret) => rest.replaceAll(secret, '[removed]'), text)
  }

  #invalidLineError(): StdioError | undefined {
    if (this.#invalidLine === undefined) return undefined
    const what = `its process wrote a line that is not JSON-RPC${this.#invalidLine}: it must write its logs to standard error`
    return this.error('UNEXPECTED_RESPONSE', what)
  }
}

function hasPart(text: string, secret: string): boolean {
  for (let at = 0; at <= secret.length - PART_LENGTH; at++) {
    if (text.includes(secret.slice(at, at + PART_LENGTH))) return true
  }
  return false
}
