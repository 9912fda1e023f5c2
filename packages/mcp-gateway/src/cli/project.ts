// What a folder and its project hold already, for `init`.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'

import { decodeText, isRecord } from '@x/internal'
import { PACKAGE_MANAGERS, runningPackageManager } from '@x/internal/command-line'
import type { PackageManager } from '@x/internal/command-line'

const GRAPHS = 'langgraph.json'

/**
 * Finds the `langgraph.json` of a folder: there, above it in its project, or else each one below it, as in a monorepo.
 */
export async function findGraphConfigs(folder: string): Promise<readonly string[]> {
  const above = projectFolders(folder).find((each) => existsSync(join(each, GRAPHS)))
  if (above !== undefined) return [join(above, GRAPHS)]
  return isInProject(folder) ? configsBelow(folder, 3) : []
}

/** Marks of the folder of a repository or of a package. */
const MARKS = ['.git', 'package.json', 'pyproject.toml']

/** A folder outside of a project may hold many others, such as the home folder of a user. */
function isInProject(folder: string): boolean {
  return projectFolders(folder).some((each) => MARKS.some((mark) => existsSync(join(each, mark))))
}

/** Returns the folder and those above it that belong to the same repository, or else to the same package. */
function projectFolders(folder: string): readonly string[] {
  const folders = [folder]
  for (let each = dirname(folder); !folders.includes(each); each = dirname(each)) folders.push(each)
  const home = folders.indexOf(homedir()) // what lies in it belongs to no project
  const reachable = home > 0 ? folders.slice(0, home) : folders
  for (const mark of MARKS) {
    const end = reachable.findIndex((each) => existsSync(join(each, mark)))
    if (end >= 0) return reachable.slice(0, end + 1)
  }
  return [folder]
}

const NO_SOURCES = new Set(['node_modules', 'dist', 'build', 'coverage', 'venv', '__pycache__'])

async function configsBelow(folder: string, depth: number): Promise<readonly string[]> {
  const found: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const path = join(folder, entry.name)
    if (entry.name === GRAPHS && entry.isFile()) found.push(path)
    const isSource = !entry.name.startsWith('.') && !NO_SOURCES.has(entry.name)
    if (depth > 0 && entry.isDirectory() && isSource) {
      found.push(...(await configsBelow(path, depth - 1)))
    }
  }
  return found.toSorted()
}

/** Returns whether a folder needs a `package.json`: an empty one does, and one outside of a package. */
export async function needsManifest(folder: string): Promise<boolean> {
  const names = await readdir(folder).catch(() => [])
  return names.every((name) => name.startsWith('.')) || manifestAbove(folder) === undefined
}

function manifestAbove(folder: string): string | undefined {
  const paths = projectFolders(folder).map((each) => join(each, 'package.json'))
  return paths.find((path) => existsSync(path))
}

/** Returns the package manager of a project: the one of its lockfile, the one that runs this command, or npm. */
export function packageManagerOf(
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): PackageManager {
  const byLockfile = projectFolders(folder).flatMap((each) =>
    PACKAGE_MANAGERS.filter(({ lockfiles }) =>
      lockfiles.some((name) => existsSync(join(each, name))),
    ),
  )
  return byLockfile[0] ?? runningPackageManager(env)
}

/** Returns the command that installs what is missing of these packages. `undefined`: a module of the folder finds them all. */
export async function installCommand(
  folder: string,
  packages: readonly string[],
  { install, add }: PackageManager,
): Promise<string | undefined> {
  // Not `require.resolve.paths()`: it names the folders of NODE_PATH too, where an `import` does not look.
  const places = [folder]
  for (let at = folder; dirname(at) !== at; at = dirname(at)) places.push(dirname(at))
  const missing = packages.filter((name) => {
    return !places.some((place) => existsSync(join(place, 'node_modules', name, 'package.json')))
  })
  if (missing.length === 0) return undefined
  const declared = await declaredPackages(folder)
  const isDeclared = missing.every((name) => declared.has(name))
  return isDeclared ? install : `${add} ${missing.join(' ')}`
}

async function declaredPackages(folder: string): Promise<ReadonlySet<string>> {
  const file = manifestAbove(folder)
  const content = file === undefined ? undefined : await readManifest(file)
  const sections = [content?.['dependencies'], content?.['devDependencies']]
  return new Set(sections.flatMap((each) => (isRecord(each) ? Object.keys(each) : [])))
}

async function readManifest(file: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const content: unknown = JSON.parse(decodeText(await readFile(file)))
    return isRecord(content) ? content : undefined
  } catch {
    return undefined // its package manager will say so
  }
}

/** Returns a name for the graph of a file: `./src/agents/support.ts:graph` gives `support`. */
export function graphName(path: string): string {
  const [file, exported = ''] = splitGraph(path)
  const stem = basename(file).replace(/\.[^.]*$/, '')
  const name = ['index', 'graph', 'agent', 'main'].includes(stem) ? exported : stem
  const isTelling = !['', 'default', 'graph'].includes(name)
  return (isTelling ? name : 'assistant').replaceAll(/[^\w-]/g, '-')
}

/** Splits `./file.ts:export`. The colon after a drive letter of Windows separates nothing. */
export function splitGraph(path: string): readonly [file: string, exported: string | undefined] {
  const [, file = path, exported] = /^(.{2,}?)(?::([\w$]+))?$/.exec(path) ?? []
  return [file, exported]
}
