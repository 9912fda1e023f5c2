import { createHash, hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'
import { untilAborted } from '@x/internal'
import { GatewayError } from '../errors.ts'
import type { Artifact, Artifacts } from './artifacts.ts'
import {
  HeldBytes,
  InlineBudget,
  inlineBlock,
  inlineLimitsFrom,
  jsonBytesOf,
  linkBlock,
  previewBlock,
  sizeOfBlock,
  unkeptBlock,
} from './blocks.ts'
import type { InlineLimits, ShownFile } from './blocks.ts'
import { TEXT_TEST_BYTES, fileTypeOf, namedTypeOf, textFrom } from './media-types.ts'
import type { FileKind } from './media-types.ts'
import type { ArtifactCaller } from './namespaces.ts'
import type {
  EarlierFiles,
  InputFile,
  OutputFile,
  OwnFile,
  ResultFiles,
  ResultFilesContext,
  RunFiles,
  StoredFile,
} from './result-files.ts'
import { artifactNameFrom, artifactTitleFrom, encodedName } from './uri.ts'
import { abortable } from '../internal/abortable.ts'
import { isPublicAddress } from '../internal/guarded-fetch.ts'
import type { GuardedFetch } from '../internal/guarded-fetch.ts'
import type { InlineSettings } from '../options.ts'

export interface GatewayFilesOptions {
  /** @default files are not stored: results show those that fit */
  readonly artifacts?: Artifacts | undefined
  /** Maximum size of one file if files are not stored. Bytes. @default 104_857_600 */
  readonly maxBytes?: number | undefined
  readonly inline: InlineSettings
  /** Fetches files that agents give by URL. @default 'never': public URLs become links, others are refused */
  readonly fetch?: GuardedFetch | 'never' | undefined
}

/**
 * Stores each file of a run as an artifact. Results show the files within the limits, and link to the others. Without
 * artifacts, files above the limits are lost.
 */
export function gatewayFiles(options: GatewayFilesOptions): ResultFiles {
  const limitsOf = inlineLimitsFrom(options.inline)
  return {
    open: (run) => new GatewayRunFiles(options, run, limitsOf(run.clientName)),
  }
}

class GatewayRunFiles implements RunFiles {
  readonly resultMaxBytes: number
  readonly #fetch: GuardedFetch | 'never'
  readonly #run: ResultFilesContext
  readonly #budget: InlineBudget
  readonly #keeper: FileKeeper
  readonly #isKept: boolean
  readonly #entries: Entry[] = []
  /** Keys of the files that are shown. */
  readonly #shown: Set<string>
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: GatewayFilesOptions, run: ResultFilesContext, limits: InlineLimits) {
    const { earlier } = run
    this.resultMaxBytes = limits.resultMaxBytes
    this.#fetch = options.fetch ?? 'never'
    this.#run = run
    this.#budget = new InlineBudget(limits)
    this.#isKept = options.artifacts !== undefined
    this.#keeper = keeperOf(options, run)
    this.#shown = new Set(earlier?.shown)
    for (const block of earlier?.blocks ?? []) this.#add({ blocks: [block] })
  }

  write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }> {
    // One after the other, so that files take room in the result in the order of the calls.
    const written = this.#last.then(() => this.#write(file))
    this.#last = written.catch(() => {})
    return written
  }

  async read(name: string, version?: number): Promise<InputFile | undefined> {
    await this.#last
    return this.#keeper.read(name, version)
  }

  async list(): Promise<readonly StoredFile[]> {
    await this.#last
    return this.#keeper.list()
  }

  async blocks(maxBytes = Number.POSITIVE_INFINITY): Promise<readonly ContentBlock[]> {
    await this.#last
    return fitting(this.#entries, maxBytes)
  }

  async keep({ name, data }: OwnFile): Promise<ResourceLink | undefined> {
    if (!this.#isKept) return undefined
    const mimeType = namedTypeOf(name) ?? 'text/plain'
    const { title, size, version, versionUri } = await this.#keeper.write({ name, mimeType, data })
    return linkBlock({ uri: versionUri, name: title, mimeType, size, version })
  }

  async soFar(): Promise<EarlierFiles> {
    await this.#last
    let room = MAX_KEPT_CHARS
    const blocks = this.#entries.flatMap((entry) => {
      const size = JSON.stringify(entry.blocks).length
      if (entry.link && size > room) return [entry.link]
      room -= size
      return entry.blocks
    })
    const { principal, sessionScope } = this.#run
    // Other callers have a scope for all their runs or for their session.
    const isOwnScope = principal.isAnonymous && sessionScope === undefined
    const scope = isOwnScope ? this.#keeper.scope : undefined
    return { blocks, shown: [...this.#shown], scope }
  }

  async #write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }> {
    this.#run.signal.throwIfAborted()
    if ('url' in file.data && this.#fetch === 'never') return this.#linked(file, file.data.url)
    const { bytes, mimeType: declared } = await this.#opened(file)
    const peeked = await untilAborted(peekedBytes(bytes, TEXT_TEST_BYTES), this.#run.signal)
    const { kind, mimeType } = fileTypeOf(
      file.mimeType ?? declared ?? namedTypeOf(file.name),
      peeked.head,
    )
    const held = new HeldBytes(this.#budget.roomFor(kind))
    const data = held.through(peeked.bytes)
    try {
      const taken = await this.#keeper.write({ name: file.name, mimeType, data })
      this.#show(taken, kind, held)
      return { uri: taken.uri, version: taken.version }
    } finally {
      peeked.end()
    }
  }

  async #opened({ data, mimeType }: OutputFile): Promise<OpenedFile> {
    if (data instanceof Uint8Array) return { bytes: once(data), mimeType }
    if (!('url' in data)) return { bytes: data, mimeType }
    if (this.#fetch === 'never') throw noFetch()
    return fetchedFile(this.#fetch, data.url, this.#run.signal)
  }

  #linked(
    { name, mimeType }: OutputFile,
    uri: string,
  ): { readonly uri: string; readonly version: number } {
    if (!isPublicLink(uri)) throw noFetch()
    if (this.#isFirst(name, uri)) {
      const link = { type: 'resource_link' as const, uri, name, ...(mimeType && { mimeType }) }
      this.#add({ blocks: [link] })
    }
    return { uri, version: 1 }
  }

  /** @throws GatewayError `LIMIT` if the file does not fit and is not stored */
  #show(taken: TakenFile, kind: FileKind, held: HeldBytes): void {
    const { name, sha256, title, mimeType, size, version, versionUri: uri } = taken
    const { isUnkept = false } = taken
    if (!this.#isFirst(name, sha256)) return
    const file: ShownFile = { uri, name: title, mimeType, size, version, isUnkept }
    const inline = this.#inline(file, kind, held.all)
    if (!inline && isUnkept) throw noRoom(size)
    const link = isUnkept ? unkeptBlock(file) : linkBlock(file)
    if (inline) return void this.#entries.push({ blocks: [inline], link })
    const { bytes: maxBytes, chars: maxChars } = this.#budget
    const room = { head: held.head, maxBytes, maxChars }
    const preview = kind === 'text' ? previewBlock(file, room) : undefined
    this.#add({ blocks: preview ? [link, preview] : [link], link })
  }

  /** Marks a file as shown. Returns whether it was not. */
  #isFirst(name: string, content: string): boolean {
    const key = hash('sha256', `${name}\0${content}`, 'base64url').slice(0, 22)
    if (this.#shown.has(key)) return false
    this.#shown.add(key)
    return true
  }

  #add(entry: Entry): void {
    for (const block of entry.blocks) this.#budget.take(sizeOfBlock(block))
    this.#entries.push(entry)
  }

  #inline(
    file: ShownFile,
    kind: FileKind,
    bytes: Uint8Array | undefined,
  ): ContentBlock | undefined {
    if (bytes === undefined) return undefined
    const text = kind === 'text' ? textFrom(bytes) : undefined
    // A file with the type of a text that is no text counts as binary.
    const shownAs = kind === 'text' && text === undefined ? 'binary' : kind
    const size = { bytes: bytes.byteLength, chars: text?.length ?? 0 }
    if (!this.#budget.spend(shownAs, size)) return undefined
    return inlineBlock(file, { kind: shownAs, bytes, text })
  }
}

function keeperOf(
  { artifacts, maxBytes = MAX_BYTES }: GatewayFilesOptions,
  run: ResultFilesContext,
): FileKeeper {
  const { address, agentId, earlier, principal, runId, sessionScope, signal } = run
  if (!artifacts) return new UnkeptFiles({ maxBytes, signal })
  const caller = { principal, scope: sessionScope, address }
  const scope = run.scope ?? earlier?.scope
  return new RunArtifacts({ artifacts, caller, runId, agentId, scope, signal })
}

const MAX_BYTES = 100 * 1024 * 1024

/** Maximum JSON characters of the shown files of a paused run. */
const MAX_KEPT_CHARS = 256 * 1024

/** A file in the result. */
interface Entry {
  readonly blocks: readonly ContentBlock[]
  /** A link in place of the blocks. @default the blocks are short already */
  readonly link?: ContentBlock | undefined
}

/** Shows at least the link of every file. Shows whole files from the first one on, as long as there is room. */
function fitting(entries: readonly Entry[], maxBytes: number): readonly ContentBlock[] {
  let room = maxBytes - MORE_BYTES
  const listed: { readonly entry: Entry; readonly short: number }[] = []
  for (const entry of entries) {
    const short = bytesOf(entry.link ? [entry.link] : entry.blocks)
    if (short > room) continue
    room -= short
    listed.push({ entry, short })
  }
  const blocks = listed.flatMap(({ entry, short }) => {
    if (!entry.link) return entry.blocks
    const more = bytesOf(entry.blocks) - short
    if (more > room) return [entry.link]
    room -= Math.max(0, more)
    return entry.blocks
  })
  const missing = entries.length - listed.length
  if (missing === 0) return blocks
  const text = `There is no room for ${missing} more files. resources/list names those that are kept.`
  return [...blocks, { type: 'text', text }]
}

const MORE_BYTES = 256

function bytesOf(blocks: readonly ContentBlock[]): number {
  return blocks.reduce((sum, block) => sum + jsonBytesOf(block) + 1, 0)
}

interface OpenedFile {
  readonly bytes: AsyncIterable<Uint8Array>
  readonly mimeType?: string | undefined
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function noRoom(size: number): GatewayError {
  const message = `The result has no room for its ${size} bytes, and this gateway keeps no files`
  return new GatewayError('LIMIT', message)
}

function noFetch(): GatewayError {
  return new GatewayError('UNAVAILABLE', 'This gateway fetches no files by their URL')
}

/** Stores the files of one run, or passes them by. */
interface FileKeeper {
  /** Scope of the files, if later runs must know it. */
  readonly scope?: string | undefined
  /** @throws GatewayError `QUOTA`, `LIMIT`, `NOT_FOUND` for a scope that the caller does not own; the reason of the signal */
  write(file: GivenFile): Promise<TakenFile>
  read(name: string, version: number | undefined): Promise<InputFile | undefined>
  list(): Promise<readonly StoredFile[]>
}

/** A file whose type is known. */
interface GivenFile {
  readonly name: string
  readonly mimeType: string
  readonly data: AsyncIterable<Uint8Array>
}

interface TakenFile extends Pick<
  Artifact,
  'name' | 'title' | 'mimeType' | 'size' | 'sha256' | 'version' | 'uri' | 'versionUri'
> {
  /** Whether the file is not stored: it is shown now or lost. @default false */
  readonly isUnkept?: boolean | undefined
}

interface UnkeptFilesOptions {
  /** Maximum size of one file. Bytes. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Does not store files: only the result has them. */
class UnkeptFiles implements FileKeeper {
  readonly #options: UnkeptFilesOptions
  readonly #versions = new Map<string, number>()

  constructor(options: UnkeptFilesOptions) {
    this.#options = options
  }

  async read(): Promise<undefined> {
    return undefined
  }

  async list(): Promise<readonly StoredFile[]> {
    return []
  }

  async write(file: GivenFile): Promise<TakenFile> {
    const { maxBytes, signal } = this.#options
    const digest = createHash('sha256')
    let size = 0
    for await (const chunk of abortable(file.data, signal)) {
      size += chunk.byteLength
      if (size > maxBytes) throw new GatewayError('LIMIT', `A file may have ${maxBytes} bytes`)
      digest.update(chunk)
    }
    const name = artifactNameFrom(file.name)
    const version = (this.#versions.get(name) ?? 0) + 1
    this.#versions.set(name, version)
    const uri = `inline:///${encodedName(name)}`
    return {
      name,
      title: artifactTitleFrom(file.name),
      mimeType: file.mimeType,
      size,
      sha256: digest.digest('hex'),
      version,
      uri,
      versionUri: `${uri}?version=${version}`,
      isUnkept: true,
    }
  }
}

export interface RunArtifactsOptions {
  readonly artifacts: Artifacts
  readonly caller: ArtifactCaller
  readonly runId: string
  readonly agentId: string
  /** Existing scope that the caller named. @default the caller's own, or one that the first file makes */
  readonly scope?: string | undefined
  readonly signal: AbortSignal
}

/** A file of the run. */
interface RunFile {
  readonly name: string
  /** @default the type of the name, else of the bytes */
  readonly mimeType?: string | undefined
  readonly data: AsyncIterable<Uint8Array>
}

/**
 * Stores the files of one run. For a caller without a name and without a session, the first file makes a scope for all of
 * them.
 */
export class RunArtifacts {
  readonly #options: RunArtifactsOptions
  /** Scope of the files, once it is known. */
  #scope: string | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: RunArtifactsOptions) {
    this.#options = options
    this.#scope = options.scope
  }

  /** Scope of the files, if it is known. */
  get scope(): string | undefined {
    return this.#scope
  }

  async read(name: string, version: number | undefined): Promise<InputFile | undefined> {
    const { artifacts, caller, agentId } = this.#options
    const scope = await this.#readScope()
    if (scope === undefined) return undefined
    return artifacts.agentFile(caller, { scope, agentId }, { name, version })
  }

  async list(): Promise<readonly StoredFile[]> {
    const { artifacts, caller, agentId } = this.#options
    const scope = await this.#readScope()
    return scope === undefined ? [] : artifacts.agentFiles(caller, { scope, agentId })
  }

  /** `undefined`: the first file of the run makes the scope, or the principal has no files yet. */
  async #readScope(): Promise<string | undefined> {
    const { artifacts, caller, signal } = this.#options
    await this.#last
    signal.throwIfAborted()
    return this.#scope ?? (await artifacts.ownScope(caller))
  }

  /** @throws GatewayError `QUOTA`, `LIMIT`; `NOT_FOUND` for a scope that the caller does not own; the reason of the signal */
  write(file: RunFile): Promise<Artifact> {
    // One after the other, so that versions of a name are in the order of the calls.
    const written = this.#last.then(() => this.#write(file))
    this.#last = written.catch(() => {})
    return written
  }

  async #write({ name, mimeType, data }: RunFile): Promise<Artifact> {
    const { artifacts, caller, runId, agentId, signal } = this.#options
    const bytes = abortable(data, signal)
    const scope = this.#scope
    const file = { name, mimeType, bytes, runId, agentId, scope }
    const written = await artifacts.write(caller, file)
    this.#scope = written.scope
    return written
  }
}

interface FetchedFile {
  readonly bytes: AsyncIterable<Uint8Array>
  readonly mimeType?: string | undefined
}

/**
 * Streams a file that an agent gave by its URL.
 *
 * @throws GatewayError `UNAVAILABLE` for an answer other than 2xx; the error of the guarded fetch
 */
async function fetchedFile(
  fetch: GuardedFetch,
  url: string,
  signal: AbortSignal,
): Promise<FetchedFile> {
  if (!URL.canParse(url)) throw new GatewayError('REFUSED', 'Refused to fetch: a malformed URL')
  const { ok, status, body, headers } = await fetch(url, { signal })
  if (!ok) {
    await body?.cancel()
    throw new GatewayError('UNAVAILABLE', `The address of the file answered with ${status}`)
  }
  return { bytes: body ?? nothing(), mimeType: headers.get('content-type') ?? undefined }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** The beginning of a file, and all of it. */
interface PeekedBytes {
  /** The first bytes: as many as requested, if the file has them. */
  readonly head: Uint8Array
  /** All bytes. Can be read once. */
  readonly bytes: AsyncIterable<Uint8Array>
  /** Closes the source of a file that is not read to its end. */
  end(): void
}

/** Reads the first bytes of a file without losing them. @throws the error of the file */
async function peekedBytes(bytes: AsyncIterable<Uint8Array>, count: number): Promise<PeekedBytes> {
  const iterator = bytes[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let size = 0
  while (size < count) {
    const next = await iterator.next()
    if (next.done) break
    first.push(next.value)
    size += next.value.byteLength
  }
  return {
    head: Buffer.concat(first),
    bytes: resumed(first, iterator),
    // Not awaited: a source that hangs would never finish to close.
    end: () => void Promise.resolve(iterator.return?.()).catch(() => {}),
  }
}

async function* resumed(
  first: readonly Uint8Array[],
  iterator: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* first
  for (;;) {
    const next = await iterator.next()
    if (next.done) return
    yield next.value
  }
}

/** Returns whether a client may get this URL: https, without a password, at a public name or address. */
export function isPublicLink(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, hostname } = new URL(text)
  if (protocol !== 'https:' || username !== '' || password !== '') return false
  const host = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  if (isIP(host) !== 0) return isPublicAddress(host)
  return host.includes('.') && !/\.(?:localhost|local|internal|home\.arpa)$/.test(host)
}
