import {
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type JSONRPCMessage,
  type Result,
  type Transport,
} from '@modelcontextprotocol/server'
import type { Skill, SkillCatalog } from '@modelcontextprotocol/server/ext/skills'
import type { Clock } from '../internal/clock.ts'

export type { Skill }

/** Name of the extension, in the capabilities of the server (SEP-2640). */
export const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills'
/** All URIs of skills begin with this. */
export const SKILL_SCHEME = 'skill://'
/** Time after which the folder is scanned again before skills are listed. */
export const SCAN_MS = 5000
/** Time for which requests wait for a scan. */
const MAX_SCAN_MS = 10_000

export interface SkillFolderOptions {
  readonly folder: string
  readonly clock: Clock
  readonly onWarning: (message: string, cause?: unknown) => void
  /** Called when a scan finds that the list of skills changed. @param uris of the skills that are new or gone */
  readonly onChange: (uris: readonly string[]) => void
}

/** A scanned folder, and the server object of the SDK that answers for it. */
interface Loaded {
  readonly catalog: SkillCatalog
  readonly request: (method: string, params: Readonly<Record<string, unknown>>) => Promise<Result>
}

/** A folder of skills (SEP-2640). The SDK reads it, and checks each file against the published entry. */
export class SkillFolder {
  readonly #options: SkillFolderOptions
  #loaded: Loaded | undefined
  /** Time of the last scan. 0: there was none. */
  #scannedAt = 0
  #scanning: Promise<void> | undefined
  /** Warnings since the last scan began, and those before: what was said then is not said again. */
  #warnings = new Set<string>()
  #earlierWarnings = new Set<string>()

  constructor(options: SkillFolderOptions) {
    this.#options = options
  }

  /** The folder was read, now or earlier. */
  get isRead(): boolean {
    return this.#loaded !== undefined
  }

  /**
   * The entries of all skills, sorted by URI, as the folder was at most 5 s ago.
   *
   * @throws ProtocolError if the folder could never be read
   */
  async entries(): Promise<readonly Skill[]> {
    if (this.#isScanDue) await this.#scan()
    return this.#assertLoaded().catalog.entries
  }

  /** The entries of the last scan, for lists that can do without them. Waits for the first scan only. */
  async lastEntries(): Promise<readonly Skill[]> {
    const scan = this.#isScanDue ? this.#scan() : undefined
    if (this.#loaded === undefined) await scan
    return this.#loaded?.catalog.entries ?? []
  }

  /**
   * Answers a request about skills or their files.
   *
   * @throws ProtocolError of the extension
   */
  async request(method: string, params: Readonly<Record<string, unknown>>): Promise<Result> {
    if (this.#loaded === undefined) await this.#scan()
    return this.#assertLoaded().request(method, params)
  }

  /** A folder that could not be read is scanned at the next request. */
  get #isScanDue(): boolean {
    return this.#loaded === undefined || this.#options.clock.now() - this.#scannedAt >= SCAN_MS
  }

  #assertLoaded(): Loaded {
    if (this.#loaded !== undefined) return this.#loaded
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'Skills cannot be read now')
  }

  /** Scans the folder, unless a scan is running. Resolves when the scan ends, or at its time limit. */
  #scan(): Promise<void> {
    if (this.#scanning !== undefined) return this.#scanning
    const { promise, resolve } = Promise.withResolvers<void>()
    const seconds = MAX_SCAN_MS / 1000
    const stopWaiting = this.#options.clock.after(MAX_SCAN_MS, () => {
      this.#warn(`The folder of skills could not be read within ${seconds} s`)
      resolve()
    })
    this.#scanning = promise
    void this.#read().finally(() => {
      stopWaiting()
      this.#scanning = undefined
      resolve()
    })
    return promise
  }

  /** After a failure, the skills of the last scan are served. */
  async #read(): Promise<void> {
    this.#earlierWarnings = this.#warnings
    this.#warnings = new Set()
    try {
      if (this.#loaded === undefined) {
        this.#loaded = await load(this.#options.folder, (text) => this.#warn(text))
        const { entries } = this.#loaded.catalog
        // Since a scan that failed, clients may have lists without skills.
        if (this.#scannedAt > 0 && entries.length > 0)
          this.#options.onChange(entries.map(({ uri }) => uri))
      } else {
        const { added, removed, listChanged } = await this.#loaded.catalog.reload()
        if (listChanged) this.#options.onChange([...added, ...removed])
      }
      for (const text of ambiguousFolders(this.#loaded.catalog.entries)) this.#warn(text)
    } catch (cause) {
      this.#warn('The folder of skills cannot be read', cause)
    }
    this.#scannedAt = this.#options.clock.now()
  }

  #warn(message: string, cause?: unknown): void {
    const key = cause instanceof Error ? `${message}: ${cause.message}` : message
    const isNew = !this.#warnings.has(key) && !this.#earlierWarnings.has(key)
    this.#warnings.add(key)
    if (isNew) this.#options.onWarning(message, cause)
  }
}

/**
 * Reads a folder of skills once.
 *
 * @param onBroken gets why a skill is left out, with the path of the file in the folder
 * @throws Error if the folder cannot be read
 */
export async function readSkills(
  folder: string,
  onBroken: (text: string) => void,
): Promise<SkillCatalog> {
  // Gateways without skills do not load it.
  const { loadSkills } = await import('@modelcontextprotocol/server/ext/skills/node')
  return loadSkills(folder, {
    pageSize: Infinity, // callers see different skills, so pages are made from those that they see
    onWarning: ({ path, message }) => onBroken(`Skill file ${path}: ${message}`),
  })
}

/** Returns a warning for each folder that is a skill, and may be the folder of an agent as well. */
export function ambiguousFolders(entries: readonly Skill[]): readonly string[] {
  return entries.filter(hasNestedSkills).flatMap(({ uri }) => {
    const [folder = '', ...path] = uri.slice(SKILL_SCHEME.length).split('/')
    if (path.length > 1) return []
    return [
      `Skill folder ${folder} is a skill with other skills inside, so it may belong to an agent: while no agent has this name, only callers with the scope agent:${folder}:call get it. Move the inner skills to the top to serve them to everyone`,
    ]
  })
}

/** True if another skill is inside the folder of a skill, also one that breaks a rule. */
export function hasNestedSkills({ uri: own, resources }: Skill): boolean {
  return (
    resources === 'dynamic' || resources.some(({ uri }) => uri !== own && uri.endsWith('/SKILL.md'))
  )
}

async function load(folder: string, warn: (message: string) => void): Promise<Loaded> {
  const catalog = await readSkills(folder, warn)
  const server = new McpServer({ name: 'skills', version: '0' })
  catalog.attach(server)
  return { catalog, request: await connect(server) }
}

/** Revision in which the server object answers. The edges of the gateway add what later revisions need. */
const ANSWERS_AS = '2025-11-25'

/** Opens a server object of the SDK in this process. Returns the function that sends a request to it. */
async function connect(server: McpServer): Promise<Loaded['request']> {
  const open = new Map<unknown, PromiseWithResolvers<Result>>()
  const transport: Transport = {
    async start() {},
    async close() {},
    async send(message: JSONRPCMessage) {
      if (isJSONRPCResultResponse(message)) open.get(message.id)?.resolve(message.result)
      if (!isJSONRPCErrorResponse(message)) return
      const { code, message: text, data } = message.error
      open.get(message.id)?.reject(new ProtocolError(code, text, data))
    },
  }
  await server.connect(transport)
  let lastId = 0
  const request: Loaded['request'] = async (method, params) => {
    const id = ++lastId
    const answer = Promise.withResolvers<Result>()
    open.set(id, answer)
    try {
      transport.onmessage?.({ jsonrpc: '2.0', id, method, params })
      return await answer.promise
    } finally {
      open.delete(id)
    }
  }
  const clientInfo = { name: 'gateway', version: '0' }
  await request('initialize', { protocolVersion: ANSWERS_AS, capabilities: {}, clientInfo })
  transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return request
}
