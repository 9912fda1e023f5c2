// Writes `docs/reference/settings.md` from the schema of a configuration file, the sections of the packages beside the
// gateway, and the doc comments of their types.
import { readFile } from 'node:fs/promises'

import { isRecord, LONGEST_MS } from '@x/internal'
import type { z } from 'zod'

import { readConfig } from '../src/cli/config-file.ts'
import { OWN_SOURCES } from '../src/cli/file-settings.ts'
import { knownKeys, pathText, shapesAt } from '../src/gateway/setting-paths.ts'
import type { SettingPath } from '../src/gateway/setting-paths.ts'
import { MAX_TTL_MS } from '../src/internal/setting-kinds.ts'

const INTRO = `# Settings of the gateway

<!-- Generated from the schema of the settings: run \`pnpm vitest run packages/mcp-gateway/test/settings-reference -u\` after a change. -->

A [file](../gateway/deploy.md#the-command) and \`createGateway()\` have the same settings, with the same defaults. \`sources\`, \`auth\`, \`credentials\`, \`store\` and \`log\` are sections of a file, and objects of a program. Times are milliseconds and sizes are bytes. \`auth.facade\` needs the package \`@x/mcp-gateway-oauth\`, and \`store.url\` needs \`@x/mcp-gateway-redis\`, as \`store.prefix\` and \`store.tasks\` do.
`

/** Doc comment and type of each field, by interface. */
type Docs = ReadonlyMap<string, ReadonlyMap<string, FieldDoc>>

interface FieldDoc {
  readonly doc: string
  readonly type: string
  /** Default that the comment names. */
  readonly byDefault: string | undefined
}

async function readDocs(): Promise<Docs> {
  const docs = new Map<string, Map<string, FieldDoc>>()
  for (const file of FILES) {
    const source = await readFile(new URL(file, import.meta.url), 'utf8')
    for (const [, name = '', parents = '', body = ''] of source.matchAll(INTERFACE)) {
      const fields = new Map<string, FieldDoc>()
      for (const parent of parents.match(/\w+(?:Settings|Options|Client)/g) ?? []) {
        for (const [field, value] of docs.get(parent) ?? []) fields.set(field, value)
      }
      for (const [, comment = '', field = '', type = ''] of body.matchAll(FIELD)) {
        const whole = comment.replaceAll(/\s*\n\s*\* ?/g, ' ').trim()
        const [doc = '', text = ''] = whole.split(/ ?@default /)
        const byDefault = text === '' || text === 'none' ? undefined : text.replaceAll('_', '')
        fields.set(field, { doc: doc.trimEnd(), type, byDefault })
      }
      docs.set(name, fields)
    }
  }
  return docs
}

const FILES = [
  '../src/options.ts',
  '../src/agents/agent.ts',
  '../src/http/auth/bearer.ts',
  '../src/http/auth/jwt.ts',
  '../src/http/auth/token-exchange.ts',
  '../src/cli/file-settings.ts',
  '../src/agents/langgraph/context.ts',
  '../src/agents/langgraph-server.ts',
  '../../mcp-gateway-a2a/src/source.ts',
  '../../mcp-gateway-redis/src/redis-store.ts',
  '../../mcp-gateway-redis/src/file-section.ts',
  '../../mcp-gateway-oauth/src/oauth-facade.ts',
  '../../mcp-gateway-oauth/src/solace-identity.ts',
  '../../mcp-gateway-oauth/src/file-section.ts',
]
const INTERFACE = /^(?:export )?interface (\w+)(?: extends ([^{]+))? \{\n([\s\S]*?)^\}/gm
const FIELD = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}readonly (\w+)\??: ([^\n]+)/g

/** Interfaces that describe sections of packages. */
const TYPES: Readonly<Record<string, string>> = {
  store: 'RedisFileSettings',
  facade: 'FacadeSettings',
  langgraph: 'LangGraphSettings',
  'langgraph-server': 'LangGraphServerSourceOptions',
  a2a: 'A2aSourceOptions',
}

/** Settings without defaults, which `auth.facade` needs. */
const IDENTITY = { url: 'https://identity.example', provider: 'azure' }

/** Uses all packages beside the gateway, so that its schema has the settings of all of them. */
export const USES_ALL_PACKAGES: object = {
  sources: [{ type: 'a2a', cards: [] }],
  auth: { facade: { identity: IDENTITY } },
  store: { url: 'redis://localhost' },
}

/** Returns the text of the page. */
export async function settingsReference(): Promise<string> {
  const docs = await readDocs()
  const plain = (await readConfig('')).config
  const { config, schema, sections } = await readConfig(USES_ALL_PACKAGES)
  const defaults = {
    ...plain,
    auth: { ...config.auth, facade: undefined },
    store: { ...config.store, ...plain.store, url: undefined },
  }
  const lines: string[] = [INTRO]
  const visit = (path: SettingPath, type: string, value: unknown): void => {
    for (const key of knownKeys(schema, path)) {
      const own = [...path, key]
      const found = docs.get(type)?.get(key) ?? docs.get(TYPES[path.join()] ?? '')?.get(key)
      if (found === undefined) throw new Error(`${pathText(own)} has no doc comment in ${type}`)
      if (key === 'sources') {
        lines.push(`## sources\n\n${found.doc}\n`, ...sources(), '')
        continue
      }
      const inner = isRecord(value) ? value[key] : undefined
      const innerType =
        TYPES[key] && path.length > 0 ? TYPES[key] : found.type.replace(' | undefined', '')
      const isSection = docs.has(innerType) && knownKeys(schema, own).length > 0
      if (path.length === 0 && isSection) lines.push(`## ${key}\n\n${found.doc}\n`)
      if (isSection) visit(own, innerType, inner)
      else lines.push(...entries({ docs, schema, path: own, found, value: inner, depth: 0 }))
      if (path.length === 0) lines.push('')
    }
  }
  const sources = (): readonly string[] => {
    return Object.entries({ ...OWN_SOURCES, ...sections.sources }).flatMap(([type, each]) => [
      `- \`type: ${type}\``,
      ...knownKeys(each.schema, []).flatMap((key) => {
        const found = docs.get(TYPES[type] ?? '')?.get(key)
        if (!found) throw new Error(`The setting ${key} of ${type} has no doc comment`)
        const value = each.schema.shape[key]?.safeParse(undefined).data
        return entries({ docs, schema: each.schema, path: [key], found, value, depth: 1 })
      }),
    ])
  }
  visit([], 'FileSettings', defaults)
  return `${lines
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trimEnd()}\n`
}

interface Entry {
  readonly docs: Docs
  readonly schema: z.ZodType
  readonly path: SettingPath
  readonly found: FieldDoc
  /** Default of the setting. */
  readonly value: unknown
  /** Number of lists around it. */
  readonly depth: number
}

/** The line of a setting, and those of the keys below it: of an object, of each item, or of each name. */
function entries({ docs, schema, path, found, value, depth }: Entry): readonly string[] {
  const text = depth === 0 ? pathText(path) : String(path.at(-1))
  const isRequired = shapesAt(schema, path.slice(0, -1)).some(({ required }) => {
    return value === undefined && Array.isArray(required) && required.includes(path.at(-1))
  })
  const byDefault = shown(path, value) ?? found.byDefault
  const otherwise = isRequired ? 'required' : byDefault && `default ${byDefault}`
  const facts = [kindAt(schema, path, value), otherwise].filter(Boolean)
  const place = facts.length === 0 ? '' : ` (${facts.join(', ')})`
  const line = `${'  '.repeat(depth)}- **\`${text}\`**${place}: ${found.doc}`
  const below = [path, [...path, 0], [...path, '<name>']].find(
    (each) => knownKeys(schema, each).length > 0,
  )
  const type = `${found.type} ${TYPES[text.split('.').at(-1) ?? ''] ?? ''}`
  const fields = docs.get(type.match(/\w+/g)?.find((name) => docs.has(name)) ?? '')
  if (below === undefined || fields === undefined) return [line]
  return [
    line,
    ...knownKeys(schema, below).flatMap((key) => {
      const inner = fields.get(key)
      if (inner === undefined) throw new Error(`${pathText(path)}: ${key} has no doc comment`)
      const own = [...below, key]
      return entries({ docs, schema, path: own, found: inner, value: undefined, depth: depth + 1 })
    }),
  ]
}

/** The kind of a setting, unless its default shows it. */
function kindAt(schema: z.ZodType, path: SettingPath, value: unknown): string {
  for (const { enum: words, type, minimum, maximum, items } of shapesAt(schema, path)) {
    if (Array.isArray(words)) return words.map((word) => `\`${String(word)}\``).join(' or ')
    if (type === 'integer') return value === undefined ? `number${range(minimum, maximum)}` : ''
    if (type === 'boolean') return value === undefined ? 'boolean' : ''
    if (type === 'array') return isRecord(items) && items['type'] === 'string' ? 'texts' : 'list'
    if (type === 'object') return ''
    if (typeof type === 'string') return value === undefined ? 'text' : ''
  }
  return ''
}

function range(minimum: unknown, maximum: unknown): string {
  const isOpen = [Number.MAX_SAFE_INTEGER, MAX_TTL_MS, LONGEST_MS].includes(Number(maximum))
  return isOpen ? '' : ` from ${String(minimum)} to ${String(maximum)}`
}

function shown(path: SettingPath, value: unknown): string | undefined {
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value)
  return isPlain ? `\`${String(value)}\`` : undefined
}
