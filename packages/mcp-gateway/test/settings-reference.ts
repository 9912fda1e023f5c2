// Writes `docs/gateway-configuration.md` from the schema of a configuration file and the doc comments of its types.
import { readFile } from 'node:fs/promises'

import { isRecord } from '@x/internal'

import { readConfig, variableOf } from '../src/cli/config-file.ts'
import { fileSchema } from '../src/cli/file-settings.ts'
import { isLive, isSecret, knownKeys, pathText, shapesAt } from '../src/gateway/setting-paths.ts'
import type { SettingPath } from '../src/gateway/setting-paths.ts'

const INTRO = `# Gateway: all settings

This page is generated from the schema of the settings: run \`pnpm vitest run packages/mcp-gateway/test/settings-reference -u\` after a change.

A configuration file has these sections. \`createGateway()\` has the same settings with the same defaults, except that

- \`agents\` is called \`registry\`, \`agents.listChangedDebounceMs\` is \`registry.debounceMs\`, and \`waitFor\` has no \`enabled\`;
- \`transport\`, \`agents.sources\`, \`auth\`, \`store\` and \`log\` are objects or methods: \`serveStdio()\`, \`sources\`, \`auth\`, \`store\`, \`logger\`;
- \`auth.anonymousPrincipal\` is \`anonymousPrincipal\`.

Times are milliseconds and sizes are bytes. Each setting has an environment variable, which is named after it; commas separate the items of a list. A setting marked with ↻ takes effect at once when the file changes, or with \`gateway.update()\`; others need a restart. A setting without a default has no value unless you set it.
`

/** Doc comment and type of each field, by interface. */
type Docs = ReadonlyMap<
  string,
  ReadonlyMap<string, { readonly doc: string; readonly type: string }>
>

async function readDocs(): Promise<Docs> {
  const docs = new Map<string, Map<string, { doc: string; type: string }>>()
  for (const file of ['../src/options.ts', '../src/cli/file-settings.ts']) {
    const source = await readFile(new URL(file, import.meta.url), 'utf8')
    for (const [, name = '', parents = '', body = ''] of source.matchAll(INTERFACE)) {
      const fields = new Map<string, { doc: string; type: string }>()
      for (const parent of parents.match(/\w+Settings/g) ?? []) {
        for (const [field, value] of docs.get(parent) ?? []) fields.set(field, value)
      }
      for (const [, comment = '', field = '', type = ''] of body.matchAll(FIELD)) {
        const doc = comment.replaceAll(/\s*\n\s*\* ?/g, ' ').trim()
        fields.set(field, { doc, type })
      }
      docs.set(name, fields)
    }
  }
  return docs
}

const INTERFACE = /^(?:export )?interface (\w+)(?: extends ([^{]+))? \{\n([\s\S]*?)^\}/gm
const FIELD = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}readonly (\w+)\??: ([^\n]+)/g

/** Returns the text of the page. */
export async function settingsReference(): Promise<string> {
  const docs = await readDocs()
  const defaults = readConfig({ content: '' }).config
  const lines: string[] = [INTRO]
  const visit = (path: SettingPath, type: string, value: unknown): void => {
    for (const key of knownKeys(fileSchema, path)) {
      const own = [...path, key]
      const found = docs.get(type)?.get(key)
      if (found === undefined) throw new Error(`${pathText(own)} has no doc comment in ${type}`)
      const inner = isRecord(value) ? value[key] : undefined
      const isSection = docs.has(found.type) && knownKeys(fileSchema, own).length > 0
      if (path.length === 0 && isSection) lines.push(`## ${key}\n\n${found.doc}\n`)
      if (isSection) visit(own, found.type, inner)
      else lines.push(entry(own, found.doc, inner))
      if (path.length === 0) lines.push('')
    }
  }
  visit([], 'FileSettings', defaults)
  return `${lines
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trimEnd()}\n`
}

function entry(path: SettingPath, doc: string, value: unknown): string {
  const facts = [kindAt(path), ...(value === undefined ? [] : [`default ${shown(path, value)}`])]
  const mark = isLive(fileSchema, path) ? ' ↻' : ''
  const secret = isSecret(fileSchema, path) ? ' It is never shown.' : ''
  const variable = isSettable(path) ? ` \`${variableOf(path)}\`` : ''
  return `- **\`${pathText(path)}\`**${mark} (${facts.join(', ')}): ${doc}${secret}${variable}`
}

function kindAt(path: SettingPath): string {
  for (const { enum: words, type, minimum, maximum, items } of shapesAt(fileSchema, path)) {
    if (Array.isArray(words)) return words.map((word) => `\`${String(word)}\``).join(' or ')
    if (type === 'integer') return `number${range(minimum, maximum)}`
    if (type === 'boolean') return '`true` or `false`'
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

function isSettable(path: SettingPath): boolean {
  return !['section', 'list'].includes(kindAt(path))
}
