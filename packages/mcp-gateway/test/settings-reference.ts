// Writes `docs/reference/settings.md` from the schema of a configuration file, the sections of the packages beside the
// gateway, and the doc comments of their types.
import { readFile } from 'node:fs/promises'

import { isRecord } from '@x/internal'
import type { z } from 'zod'

import { readConfig } from '../src/cli/config-file.ts'
import { OWN_SOURCES } from '../src/cli/file-settings.ts'
import { isSecret, knownKeys, pathText, shapesAt } from '../src/gateway/setting-paths.ts'
import type { SettingPath } from '../src/gateway/setting-paths.ts'

const INTRO = `# Gateway: all settings

This page is generated from the schema of the settings: run \`pnpm vitest run packages/mcp-gateway/test/settings-reference -u\` after a change.

A configuration file and \`createGateway()\` have the same settings, with the same defaults. \`sources\`, \`auth\`, \`store\` and \`log\` are sections of a file, and objects of a program.

Times are milliseconds and sizes are bytes. A value may come from the environment: \`port: \${PORT:-8000}\`. Settings of \`auth.facade\` need \`auth.mode: facade\`; \`store.url\`, \`store.prefix\`, \`store.tasks\` and \`store.concurrency\` need \`store.type: redis\`. See [operation](gateway-operation.md#the-command) for the file, and [agents and tools](gateway-agents.md#names-filters-and-parameters) for \`tools\`.
`

/** Doc comment and type of each field, by interface. */
type Docs = ReadonlyMap<string, ReadonlyMap<string, FieldDoc>>

interface FieldDoc {
  readonly doc: string
  readonly type: string
  /** Default as a number, if the comment names one. */
  readonly number: number | undefined
}

async function readDocs(): Promise<Docs> {
  const docs = new Map<string, Map<string, FieldDoc>>()
  for (const file of FILES) {
    const source = await readFile(new URL(file, import.meta.url), 'utf8')
    for (const [, name = '', parents = '', body = ''] of source.matchAll(INTERFACE)) {
      const fields = new Map<string, FieldDoc>()
      for (const parent of parents.match(/\w+(?:Settings|Options)/g) ?? []) {
        for (const [field, value] of docs.get(parent) ?? []) fields.set(field, value)
      }
      for (const [, comment = '', field = '', type = ''] of body.matchAll(FIELD)) {
        const whole = comment.replaceAll(/\s*\n\s*\* ?/g, ' ').trim()
        const [doc = '', text = ''] = whole.split(/ ?@default /)
        const number = /^[\d_]+$/.test(text) ? Number(text.replaceAll('_', '')) : undefined
        fields.set(field, { doc, type, number })
      }
      docs.set(name, fields)
    }
  }
  return docs
}

const FILES = [
  '../src/options.ts',
  '../src/cli/file-settings.ts',
  '../src/agents/langgraph/context.ts',
  '../src/agents/langgraph-server.ts',
  '../../mcp-gateway-a2a/src/source.ts',
  '../../mcp-gateway-redis/src/redis-store.ts',
  '../../mcp-gateway-redis/src/file-section.ts',
  '../../mcp-gateway-oauth/src/oauth-facade.ts',
]
const INTERFACE = /^(?:export )?interface (\w+)(?: extends ([^{]+))? \{\n([\s\S]*?)^\}/gm
const FIELD = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}readonly (\w+)\??: ([^\n]+)/g

/** Interfaces that describe sections of packages. */
const TYPES: Readonly<Record<string, string>> = {
  store: 'RedisFileSettings',
  facade: 'OAuthFacadeOptions',
  langgraph: 'LangGraphSettings',
  'langgraph-server': 'LangGraphServerSourceOptions',
  a2a: 'A2aSourceOptions',
}

/** Returns the text of the page. */
export async function settingsReference(): Promise<string> {
  const docs = await readDocs()
  const plain = (await readConfig('')).config
  const { config, schema, sections } = await readConfig({
    sources: [{ type: 'a2a', cards: [] }],
    auth: { mode: 'facade' },
    store: { type: 'redis', url: 'redis://localhost' },
  })
  const defaults = {
    ...plain,
    auth: { ...plain.auth, facade: config.auth.facade },
    store: { ...config.store, ...plain.store, url: undefined },
  }
  const lines: string[] = [INTRO]
  const visit = (path: SettingPath, type: string, value: unknown): void => {
    for (const key of knownKeys(schema, path)) {
      const own = [...path, key]
      const found = docs.get(type)?.get(key) ?? docs.get(TYPES[path.join()] ?? '')?.get(key)
      if (found === undefined) throw new Error(`${pathText(own)} has no doc comment in ${type}`)
      const inner = isRecord(value) ? value[key] : undefined
      const innerType = TYPES[key] && path.length > 0 ? TYPES[key] : found.type
      const isSection = docs.has(innerType) && knownKeys(schema, own).length > 0
      if (path.length === 0 && isSection) lines.push(`## ${key}\n\n${found.doc}\n`)
      if (isSection) visit(own, innerType, inner)
      else lines.push(entry({ schema, path: own, doc: found.doc, value: inner }))
      if (pathText(own) === 'sources') lines.push(...sources())
      if (path.length === 0) lines.push('')
    }
  }
  const sources = (): readonly string[] => {
    return Object.entries({ ...OWN_SOURCES, ...sections.sources }).flatMap(([type, each]) => [
      `  - \`type: ${type}\``,
      ...knownKeys(each.schema, []).map((key) => {
        const found = docs.get(TYPES[type] ?? '')?.get(key)
        if (!found) throw new Error(`The setting ${key} of ${type} has no doc comment`)
        const { doc, number } = found
        const value = each.schema.shape[key]?.safeParse(undefined).data ?? number
        return `    ${entry({ schema: each.schema, path: [key], doc, value })}`
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
  readonly schema: z.ZodType
  readonly path: SettingPath
  readonly doc: string
  /** Default of the setting. */
  readonly value: unknown
}

function entry({ schema, path, doc, value }: Entry): string {
  const kind = kindAt(schema, path)
  const facts = [kind, ...(value === undefined ? [] : [`default ${shown(path, value)}`])]
  const secret = isSecret(schema, path) ? ' It is never shown.' : ''
  return `- **\`${pathText(path)}\`** (${facts.join(', ')}): ${doc}${secret}`
}

function kindAt(schema: z.ZodType, path: SettingPath): string {
  for (const { enum: words, type, minimum, maximum, items } of shapesAt(schema, path)) {
    if (Array.isArray(words)) return words.map((word) => `\`${String(word)}\``).join(' or ')
    if (type === 'integer') return `number${range(minimum, maximum)}`
    if (type === 'boolean') return 'boolean'
    if (type === 'array') return isRecord(items) && items['type'] === 'string' ? 'texts' : 'list'
    if (type === 'object') return 'section'
    if (typeof type === 'string') return 'text'
  }
  return 'text'
}

function range(minimum: unknown, maximum: unknown): string {
  const isOpen = maximum === Number.MAX_SAFE_INTEGER || maximum === 2_147_483_647
  return isOpen ? ` from ${String(minimum)}` : ` from ${String(minimum)} to ${String(maximum)}`
}

function shown(path: SettingPath, value: unknown): string {
  if (pathText(path) === 'server.version') return 'the version of this package'
  if (Array.isArray(value) || isRecord(value)) return 'empty'
  return `\`${String(value)}\``
}
