// Tries the projects in `examples/` as a stranger would get them, with the packages of this checkout from tarballs:
//
//   pnpm examples [name…]
//
// Installs them in one temporary workspace, type-checks each, runs `npm test`, and compares what `npm start` prints
// with the first `text` block of the README, if there is one. Needs `pnpm build` before.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify, stripVTControlCharacters } from 'node:util'
import { packAll } from './tarballs.ts'
import type { Packed } from './tarballs.ts'

const EXAMPLES = fileURLToPath(new URL('../examples', import.meta.url))
/** Packages with an install script that the examples do not need. */
const WITHOUT_SCRIPTS = { esbuild: false, 'msgpackr-extract': false }

interface Project {
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly overrides?: Readonly<Record<string, string>>
}

const wanted = process.argv.slice(2).map((path) => basename(path))
const entries = await readdir(EXAMPLES, { withFileTypes: true })
const names = entries
  .filter((entry) => entry.isDirectory() && (wanted.length === 0 || wanted.includes(entry.name)))
  .map(({ name }) => name)
const unknown = wanted.filter((name) => !names.includes(name))
if (unknown.length > 0) throw new Error(`There is no example "${unknown.join('", "')}"`)

const folder = await mkdtemp(join(tmpdir(), 'examples-'))
try {
  await prepare(await packAll(folder))
  await run('npx', ['--yes', 'pnpm@12', 'install', '--no-frozen-lockfile'], workspace())
  let failed = 0
  for (const name of names) {
    const started = performance.now()
    try {
      await tryExample(name)
      console.log(`ok    ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`)
    } catch (error) {
      failed++
      console.error(`WRONG ${name}: ${outputOf(error)}`)
    }
  }
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  await rm(folder, { recursive: true, force: true })
}

function workspace(): string {
  return join(folder, 'workspace')
}

/** Copies the examples into a workspace that takes our packages from their tarballs. */
async function prepare(all: readonly Packed[]): Promise<void> {
  const ours = Object.fromEntries(
    all.map(({ manifest, tarball }) => [manifest.name, `file:${tarball}`]),
  )
  let overrides: Readonly<Record<string, string>> = ours
  await mkdir(workspace())
  for (const name of names) {
    await cp(join(EXAMPLES, name), join(workspace(), name), {
      recursive: true,
      filter: (path) => basename(path) !== 'node_modules',
    })
    const project = await projectOf(name)
    assertVersions(project, all)
    overrides = { ...project.overrides, ...overrides }
  }
  const settings = {
    packages: ['*'],
    overrides,
    strictDepBuilds: true,
    allowBuilds: WITHOUT_SCRIPTS,
  }
  // JSON is YAML.
  await writeFile(join(workspace(), 'pnpm-workspace.yaml'), JSON.stringify(settings))
  await writeFile(join(workspace(), 'package.json'), '{ "private": true }')
}

async function projectOf(name: string): Promise<Project> {
  return JSON.parse(await readFile(join(workspace(), name, 'package.json'), 'utf8'))
}

/** The overrides replace any version. A stranger gets the one that the example names. */
function assertVersions(project: Project, all: readonly Packed[]): void {
  const versions = { ...project.dependencies, ...project.devDependencies }
  for (const { manifest } of all) {
    const version = versions[manifest.name]
    if (version !== undefined && version !== manifest.version) {
      throw new Error(
        `An example wants ${manifest.name} ${version}, but its version is ${manifest.version}`,
      )
    }
  }
}

async function tryExample(name: string): Promise<void> {
  const cwd = join(workspace(), name)
  await run(join(cwd, 'node_modules', '.bin', 'tsc'), ['-p', '.'], cwd)
  await run('npm', ['test'], cwd)
  const readme = await readFile(join(cwd, 'README.md'), 'utf8')
  const printed = readme.match(/```text\n([\s\S]*?)```/)?.[1]
  if (printed === undefined) return
  const output = await run('npm', ['start', '--silent'], cwd)
  if (output.trim() !== printed.trim()) {
    throw new Error(`The README says that it prints\n${printed}\nIt printed\n${output}`)
  }
}

/** Runs a command on the Node.js of this process, and returns what it printed. */
async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`
  const options = { cwd, env: { ...process.env, PATH }, timeout: 600_000 }
  const { stdout } = await promisify(execFile)(command, args, options)
  return stripVTControlCharacters(stdout)
}

/** What a command wrote before it failed tells more than that it failed. */
function outputOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const written = 'stdout' in error && 'stderr' in error ? [error.stdout, error.stderr] : []
  return [error.message, ...written.map(String)].join('\n')
}
