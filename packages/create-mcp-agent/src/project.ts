// The files of a new project: layers of templates, and a package.json.
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const TEMPLATES = ['agent', 'gateway', 'both'] as const
export type Template = (typeof TEMPLATES)[number]

/** Folder of the templates, seen from `src` and from `dist`. */
const FOLDER = fileURLToPath(new URL('../templates', import.meta.url))

/** A file of a later layer replaces the one of an earlier layer. */
const LAYERS: Readonly<Record<Template, readonly string[]>> = {
  agent: ['common', 'agent'],
  gateway: ['common', 'gateway'],
  both: ['common', 'agent', 'gateway', 'both'],
}

/** npm leaves a `.gitignore` out of packages. */
const RENAMED: Readonly<Record<string, string>> = { _gitignore: '.gitignore' }

/** Versions of packages, as ranges. */
export type Versions = Readonly<Record<string, string>>

export interface ProjectOptions {
  readonly template: Template
  readonly name: string
  readonly versions: Versions
}

/** Returns the texts of the files of a project, by path. */
export async function projectFiles(options: ProjectOptions): Promise<ReadonlyMap<string, string>> {
  const files = new Map([['package.json', manifestText(options)]])
  for (const layer of LAYERS[options.template]) {
    const folder = join(FOLDER, layer)
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    for (const entry of entries.filter((each) => each.isFile())) {
      const source = join(entry.parentPath, entry.name)
      const path = relative(folder, source).replaceAll('\\', '/')
      files.set(RENAMED[path] ?? path, await readFile(source, 'utf8'))
    }
  }
  return files
}

function manifestText({ template, name, versions }: ProjectOptions): string {
  const { scripts, dependencies, devDependencies } = PARTS[template]
  const versionsOf = (names: readonly string[]): Versions => {
    return Object.fromEntries(names.toSorted().map((each) => [each, versionOf(each, versions)]))
  }
  const manifest = {
    name,
    private: true,
    type: 'module',
    scripts: { ...scripts, test: 'node --test', typecheck: 'tsc' },
    dependencies: versionsOf([...COMMON.dependencies, ...dependencies]),
    devDependencies: versionsOf([...COMMON.devDependencies, ...devDependencies]),
    engines: { node: '>=22.19' },
  }
  return `${JSON.stringify(manifest, undefined, 2)}\n`
}

function versionOf(name: string, versions: Versions): string {
  const version = versions[name]
  if (version === undefined) throw new Error(`The workspace has no version of ${name}`)
  return version
}

interface Parts {
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: readonly string[]
  readonly devDependencies: readonly string[]
}

const SERVER = 'mcp-server-everything streamableHttp'
const AGENT = 'node src/main.ts'

const COMMON = {
  dependencies: ['@langchain/core', '@langchain/langgraph'],
  devDependencies: ['@types/node', 'typescript'],
}

/** Parts of each template, beside the common ones. */
const PARTS: Readonly<Record<Template, Parts>> = {
  agent: {
    scripts: { server: SERVER, start: AGENT },
    dependencies: ['@modelcontextprotocol/sdk', '@x/langchain-mcp', 'langchain'],
    devDependencies: ['@modelcontextprotocol/server-everything', '@x/mcp-testing'],
  },
  gateway: {
    scripts: { check: 'mcp-gateway check', start: 'mcp-gateway' },
    dependencies: ['@x/mcp-gateway'],
    devDependencies: ['@modelcontextprotocol/sdk', '@x/mcp-client'],
  },
  both: {
    scripts: { ask: AGENT, check: 'mcp-gateway check', server: SERVER, start: 'mcp-gateway' },
    dependencies: ['@modelcontextprotocol/sdk', '@x/langchain-mcp', '@x/mcp-gateway', 'langchain'],
    devDependencies: ['@modelcontextprotocol/server-everything', '@x/mcp-client', '@x/mcp-testing'],
  },
}

/** Names of all packages of the templates. */
export const PACKAGES: ReadonlySet<string> = new Set(
  [COMMON, ...Object.values(PARTS)].flatMap(({ dependencies, devDependencies }) => {
    return [...dependencies, ...devDependencies]
  }),
)
