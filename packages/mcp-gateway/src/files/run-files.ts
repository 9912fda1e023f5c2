import { hash } from 'node:crypto'
import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'
import { GatewayError } from '../errors.ts'
import type { AgentScope, Artifact, Artifacts } from './artifacts.ts'
import {
  HeldBytes,
  InlineBudget,
  inlineBlock,
  jsonBytesOf,
  linkBlock,
  previewBlock,
  sizeOfBlock,
} from './blocks.ts'
import { fileTypeOf, namedTypeOf } from './media-types.ts'
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
import { artifactNameFrom, encodedName } from './uri.ts'
import type { Caller } from '../internal/principal.ts'
import { abortable } from '../internal/timers.ts'
import { createGuardedFetch, type GuardedFetch } from '../internal/guarded-fetch.ts'
import type { ArtifactSettings, InlineSettings } from '../options.ts'
import { MeasuredBytes } from '../store/blobs.ts'

export interface GatewayFilesOptions extends Pick<ArtifactSettings, 'maxBytes'> {
  /** `undefined`: files are not stored. Results show those that fit. */
  readonly artifacts: Artifacts | undefined
  readonly inline: InlineSettings
  /** Fetches files that agents give by URL. @default createGuardedFetch() */
  readonly fetch?: GuardedFetch | undefined
}

/**
 * Stores each file of a run as an artifact. Results show the files within the limits, and link to the others. Without
 * artifacts, files above the limits are lost.
 */
export function gatewayFiles(options: GatewayFilesOptions): ResultFiles {
  const { artifacts, maxBytes, fetch = createGuardedFetch({ maxBytes }) } = options
  const open = async (caller: Caller, uri: string, index: number): Promise<InputFile> => {
    if (!artifacts) {
      const message = 'This gateway stores no files, so an agent cannot get any'
      throw new GatewayError('NOT_FOUND', message)
    }
    try {
      return await artifacts.inputFile(caller, uri)
    } catch (cause) {
      if (!GatewayError.is(cause) || cause.code !== 'NOT_FOUND') throw cause
      const message = `Bad arguments: /files/${index} is not a file of yours, or has expired`
      throw new GatewayError('NOT_FOUND', message, { cause })
    }
  }
  return {
    open: (run) => new GatewayRunFiles({ ...options, fetch }, run),
    input: (caller, uris) => Promise.all(uris.map((uri, index) => open(caller, uri, index))),
  }
}

type FilesOptions = GatewayFilesOptions & { readonly fetch: GuardedFetch }

/** The files of one run. For a caller without a name and without a session, the first file makes a scope for all of them. */
class GatewayRunFiles implements RunFiles {
  readonly resultMaxBytes: number
  readonly #options: FilesOptions
  readonly #run: ResultFilesContext
  readonly #budget: InlineBudget
  readonly #entries: Entry[] = []
  /** Keys of the files that are shown. */
  readonly #shown: Set<string>
  /** Number of versions of each name, where files are not stored. */
  readonly #versions = new Map<string, number>()
  /** Scope of the files, once it is known. */
  #scope: string | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: FilesOptions, run: ResultFilesContext) {
    const { earlier } = run
    const { inline } = options
    this.resultMaxBytes = inline.resultMaxBytes
    this.#options = options
    this.#run = run
    this.#budget = new InlineBudget(inline)
    this.#scope = earlier?.scope
    this.#shown = new Set(earlier?.shown)
    for (const block of earlier?.blocks ?? []) this.#add([block])
  }

  write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }> {
    return this.#inTurn(() => this.#write(file))
  }

  async read(name: string, version?: number): Promise<InputFile | undefined> {
    const at = await this.#whereToRead()
    return at && this.#options.artifacts?.agentFile(this.#run.caller, at, { name, version })
  }

  async list(): Promise<readonly StoredFile[]> {
    const at = await this.#whereToRead()
    return (at && (await this.#options.artifacts?.agentFiles(this.#run.caller, at))) ?? []
  }

  async blocks(maxBytes = Number.POSITIVE_INFINITY): Promise<readonly ContentBlock[]> {
    await this.#last
    return fitting(this.#entries, maxBytes)
  }

  async keep({ name, data }: OwnFile): Promise<ResourceLink | undefined> {
    if (!this.#options.artifacts) return undefined
    const mimeType = namedTypeOf(name) ?? 'text/plain'
    const kept = await this.#inTurn(() => this.#store({ name, mimeType, data }))
    return linkBlock({ ...kept, uri: kept.versionUri })
  }

  async soFar(): Promise<EarlierFiles> {
    await this.#last
    let room = MAX_KEPT_CHARS
    const blocks = this.#entries.flatMap((entry) => {
      const size = JSON.stringify(entry.blocks).length
      if (entry.short !== entry.blocks && size > room) return entry.short
      room -= size
      return entry.blocks
    })
    const { principal, scope } = this.#run.caller
    // Other callers have a scope for all their runs or for their session.
    const isOwnScope = principal.isAnonymous && scope === undefined
    return { blocks, shown: [...this.#shown], scope: isOwnScope ? this.#scope : undefined }
  }

  /** Files take room in the result, and get versions, in the order of the calls. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }

  /** `undefined`: the first file of the run makes the scope, or the principal has no files yet. */
  async #whereToRead(): Promise<AgentScope | undefined> {
    await this.#last
    const { agentId, caller, signal } = this.#run
    signal.throwIfAborted()
    const scope = this.#scope ?? (await this.#options.artifacts?.scopes.own(caller))
    return scope === undefined ? undefined : { scope, agentId }
  }

  async #write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }> {
    const { signal } = this.#run
    signal.throwIfAborted()
    const { name, mimeType, data } = await this.#opened(file)
    const held = new HeldBytes(this.#budget.largest)
    const source = data[Symbol.asyncIterator]()
    const bytes = held.through({ [Symbol.asyncIterator]: () => source })
    try {
      const stored = await this.#store({ name, mimeType, data: bytes })
      this.#show(stored, mimeType, held)
      return { uri: stored.uri, version: stored.version }
    } finally {
      // Also if no byte was read. Not awaited: a source that hangs would never close.
      void Promise.resolve(source.return?.()).catch(() => {})
    }
  }

  /** @throws GatewayError `UNAVAILABLE` for a response other than 2xx; the error of the guarded fetch */
  async #opened({ name, data, mimeType: declared }: OutputFile): Promise<GivenFile> {
    const mimeType = declared ?? namedTypeOf(name)
    if (data instanceof Uint8Array) return { name, mimeType, data: once(data) }
    if (!('url' in data)) return { name, mimeType, data }
    if (!URL.canParse(data.url)) {
      throw new GatewayError('REFUSED', 'Refused to fetch a file: its URL is malformed')
    }
    const { ok, status, body, headers } = await this.#options.fetch(data.url, {
      signal: this.#run.signal,
    })
    if (!ok) {
      await body?.cancel()
      throw new GatewayError('UNAVAILABLE', `The server of the file responded with ${status}`)
    }
    const type = declared ?? headers.get('content-type') ?? mimeType
    return { name, mimeType: type, data: body ?? once(new Uint8Array()) }
  }

  /** @throws GatewayError `QUOTA`, `LIMIT`, `NOT_FOUND` for a scope that the caller does not own; the reason of the signal */
  async #store({ name, mimeType, data }: GivenFile): Promise<WrittenFile> {
    const { artifacts } = this.#options
    const { runId, agentId, signal } = this.#run
    const bytes = abortable(data, signal)
    if (!artifacts) return this.#measure({ name, mimeType, data: bytes })
    const file = { name, mimeType, bytes, runId, agentId, scope: this.#scope }
    const written = await artifacts.write(this.#run.caller, file)
    this.#scope = written.scope
    return written
  }

  /** Reads a file that is not stored, for its type, its size and its hash. */
  async #measure({ name: given, mimeType: declared, data }: GivenFile): Promise<WrittenFile> {
    const head = new HeldBytes(0)
    const measured = new MeasuredBytes(head.through(data), this.#options.maxBytes)
    for await (const chunk of measured) void chunk
    const name = artifactNameFrom(given)
    const version = (this.#versions.get(name) ?? 0) + 1
    this.#versions.set(name, version)
    const uri = `inline:///${encodedName(name)}`
    return {
      name,
      mimeType: fileTypeOf(declared, head.head).mimeType,
      size: measured.size,
      sha256: measured.sha256(),
      version,
      uri,
      versionUri: `${uri}?version=${version}`,
    }
  }

  /** @throws GatewayError `LIMIT` if the file does not fit and is not stored */
  #show(written: WrittenFile, declared: string | undefined, held: HeldBytes): void {
    const { name, sha256, mimeType, size, version, versionUri: uri } = written
    if (!this.#isFirst(name, sha256)) return
    const isStored = this.#options.artifacts !== undefined
    const { kind } = fileTypeOf(declared, held.head)
    const { all } = held
    const inline = all && inlineBlock({ uri, mimeType, kind, isStored }, all, this.#budget)
    if (!inline && !isStored) throw noRoom(size)
    const text = `The file "${name}" (${mimeType}, ${size} bytes) was made, and is not stored here.`
    const link = isStored
      ? linkBlock({ uri, name, mimeType, size, version })
      : { type: 'text' as const, text }
    if (inline) return void this.#entries.push({ blocks: [inline], short: [link] })
    const preview = kind === 'text' ? previewBlock(name, held.head, this.#budget) : undefined
    this.#add(preview ? [link, preview] : [link], [link])
  }

  /** Marks a file as shown. Returns whether it was not. */
  #isFirst(name: string, content: string): boolean {
    const key = hash('sha256', `${name}\0${content}`, 'base64url').slice(0, 22)
    if (this.#shown.has(key)) return false
    this.#shown.add(key)
    return true
  }

  #add(blocks: readonly ContentBlock[], short = blocks): void {
    for (const block of blocks) this.#budget.take(sizeOfBlock(block))
    this.#entries.push({ blocks, short })
  }
}

/** Maximum JSON characters of the shown files of a paused run. */
const MAX_KEPT_CHARS = 256 * 1024

/** A file in the result. */
interface Entry {
  readonly blocks: readonly ContentBlock[]
  /** A link to show instead of the blocks. */
  readonly short: readonly ContentBlock[]
}

/** Shows at least the link of every file. Shows whole files from the first one on, as long as there is room. */
function fitting(entries: readonly Entry[], maxBytes: number): readonly ContentBlock[] {
  let room = maxBytes - MORE_BYTES
  const takesRoom = (bytes: number): boolean => {
    const fits = bytes <= room
    if (fits) room -= Math.max(0, bytes)
    return fits
  }
  const listed = entries.filter(({ short }) => takesRoom(bytesOf(short)))
  const blocks = listed.flatMap(({ blocks: whole, short }) =>
    takesRoom(bytesOf(whole) - bytesOf(short)) ? whole : short,
  )
  const missing = entries.length - listed.length
  if (missing === 0) return blocks
  const text = `There is no room for ${missing} more files. resources/list names those that are stored.`
  return [...blocks, { type: 'text', text }]
}

const MORE_BYTES = 256

function bytesOf(blocks: readonly ContentBlock[]): number {
  return blocks.reduce((sum, block) => sum + jsonBytesOf(block) + 1, 0)
}

/** A file to store. */
interface GivenFile {
  readonly name: string
  /** Type that the agent declared, else that of the server of the file, else that of the name. */
  readonly mimeType: string | undefined
  readonly data: AsyncIterable<Uint8Array>
}

type WrittenFile = Pick<
  Artifact,
  'name' | 'mimeType' | 'size' | 'sha256' | 'version' | 'uri' | 'versionUri'
>

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function noRoom(size: number): GatewayError {
  const message = `The result has no room for its ${size} bytes, and this gateway does not store files`
  return new GatewayError('LIMIT', message)
}
