// Installs each packed package alone, and bundles it: both sizes must be within `budgets.json`. Then bundles a client and
// a gateway with esbuild, rollup and webpack into one file each, and runs them where no package is installed. Prints how
// long the import of each package takes. `--write` writes the sizes of now, with a tenth of room, as the budgets.
/// <reference lib="esnext.disposable" />
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startLegacyServer } from '../packages/mcp-testing/src/index.ts'
import { packAll, peersOf, withOurs } from './tarballs.ts'
import type { Packed } from './tarballs.ts'

const run = promisify(execFile)
const BUDGETS = fileURLToPath(new URL('budgets.json', import.meta.url))
const TOOLS = [
  'esbuild@0.28.2',
  'rollup@4.68.8',
  '@rollup/plugin-commonjs@29.0.3',
  '@rollup/plugin-json@6.1.0',
  '@rollup/plugin-node-resolve@16.0.3',
  'webpack@5.113.0',
]

/** Kilobytes by the folder of a package. */
type Sizes = Record<string, number>

interface Budgets {
  /** Of a package with its dependencies, but without its peers. */
  readonly installedKb: Sizes
  /** Of a bundle of all that a package exports, minified, without `@langchain/*` and optional peers. */
  readonly minifiedKb: Sizes
}

/** Installs packages of ours without their peers, and returns the size of all files. */
async function installedKb(
  packed: Packed,
  all: readonly Packed[],
  project: string,
): Promise<number> {
  await install(project, [
    '--legacy-peer-deps',
    ...withOurs(packed, all).map(({ tarball }) => tarball),
  ])
  const files = await readdir(join(project, 'node_modules'), {
    recursive: true,
    withFileTypes: true,
  })
  const sizes = await Promise.all(
    files
      .filter((file) => file.isFile())
      .map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  )
  return toKb(sizes.reduce((sum, size) => sum + size, 0))
}

async function install(project: string, args: readonly string[]): Promise<void> {
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts']
  await run('npm', ['install', ...flags, ...args], { cwd: project })
}

function toKb(bytes: number): number {
  return Math.ceil(bytes / 1000)
}

/** Optional peers that are not installed. A bundler must leave them out. */
function missingPeers(packages: readonly Packed[], project: string): string[] {
  const peers = packages.flatMap(({ manifest }) => Object.keys(manifest.peerDependenciesMeta ?? {}))
  return [...new Set(peers)].filter((name) => !existsSync(join(project, 'node_modules', name)))
}

interface Bundling {
  readonly project: string
  readonly entry: string
  readonly external: readonly string[]
}

/** A script that bundles `entry` into `file`, in the project in which the bundlers are installed. */
type Bundler = (bundling: Bundling, file: string) => string

const text = JSON.stringify
const withSubpaths = (names: readonly string[]): string[] =>
  names.flatMap((name) => [name, `${name}/*`])

function byEsbuild(options: object): Bundler {
  return ({ entry, external }, file) => `
    import { build } from 'esbuild'
    const common = { bundle: true, platform: 'node', target: 'node22', logLevel: 'error' }
    const files = { entryPoints: [${text(entry)}], outfile: ${text(file)} }
    await build({ ...common, ...files, external: ${text(withSubpaths(external))}, ...${text(options)} })`
}

const bundlers: Readonly<Record<string, Bundler>> = {
  'esbuild, a module': byEsbuild({ format: 'esm' }),
  'esbuild, CommonJS': byEsbuild({ format: 'cjs', outExtension: undefined }),
  rollup: ({ entry }, file) => `
    import commonjs from '@rollup/plugin-commonjs'
    import json from '@rollup/plugin-json'
    import { nodeResolve } from '@rollup/plugin-node-resolve'
    import { rollup } from 'rollup'
    const plugins = [nodeResolve({ exportConditions: ['node'], preferBuiltins: true }), commonjs(), json()]
    const bundle = await rollup({ input: ${text(entry)}, plugins, onwarn() {} })
    await bundle.write({ file: ${text(file)}, format: 'es', inlineDynamicImports: true })`,
  webpack: ({ project, entry }, file) => `
    import webpack from 'webpack'
    const compiler = webpack({
      mode: 'production',
      target: 'node22',
      context: ${text(project)},
      entry: ${text(entry)},
      experiments: { outputModule: true },
      output: { path: ${text(join(file, '..'))}, filename: ${text(basename(file))}, module: true },
      optimization: { minimize: false },
      plugins: [new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 })],
    })
    compiler.run((error, stats) => {
      if (error || stats.hasErrors()) throw error ?? new Error(stats.toString({ all: false, errors: true }))
    })`,
}

async function bundle(bundler: Bundler, bundling: Bundling, file: string): Promise<void> {
  const script = bundler(bundling, file)
  await run(process.execPath, ['--input-type=module', '-e', script], { cwd: bundling.project })
}

/** Programs that print the same, bundled or not. They have no top-level await, for CommonJS. */
const programs: Readonly<Record<string, (scope: string) => string>> = {
  client: (scope) => `
    import { McpClient } from '${scope}/mcp-client'
    const client = new McpClient({ url: process.env.SERVER_URL })
    client.listTools().then(async (tools) => {
      console.log(tools.map(({ name }) => name).join())
      await client.dispose()
    })`,
  gateway: (scope) => `
    import { createGateway } from '${scope}/mcp-gateway'
    const messages = [{ type: 'ai', content: 'Sunny' }]
    const graph = {
      channels: { messages: {} },
      async *values() {
        yield [[], 'values', { messages }]
      },
      async stream() {
        return this.values()
      },
    }
    const gateway = createGateway({ agents: { weather: { graph, description: 'Says the weather' } } })
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const clientInfo = { name: 'test', version: '1.0.0' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
    gateway.listen({ port: 0 }).then(async ({ url }) => {
      const response = await fetch(url, { method: 'POST', headers, body })
      const { result } = JSON.parse((await response.text()).replace(/^[^{]*/, ''))
      console.log(result.serverInfo.name, result.serverInfo.version)
      await gateway.close()
    })`,
}

/** Runs each program unbundled, then in a bundle of each bundler, in a folder without packages. */
async function tryBundles(project: string, packages: readonly Packed[]): Promise<void> {
  await using server = await startLegacyServer()
  const env = { ...process.env, SERVER_URL: server.url }
  const scope = packages[0]?.manifest.name.split('/')[0] ?? ''
  const folder = join(project, '..', 'bundled')
  await mkdir(folder)
  for (const [program, source] of Object.entries(programs)) {
    const entry = join(project, `${program}.js`)
    await writeFile(entry, source(scope))
    const unbundled = await run(process.execPath, [entry], { env, timeout: 60_000 })
    if (unbundled.stdout.trim() === '') throw new Error(`The ${program} printed nothing`)
    for (const [name, bundler] of Object.entries(bundlers)) {
      const extension = name.includes('CommonJS') ? 'cjs' : 'mjs'
      const file = join(folder, `${program}-${name.replaceAll(/\W+/g, '-')}.${extension}`)
      await check(`${program}, bundled by ${name}`, async () => {
        // No package is named as external: the optional ones that are not installed may not stop a bundler.
        await bundle(bundler, { project, entry, external: [] }, file)
        const { stdout } = await run(process.execPath, [file], { env, timeout: 60_000 })
        if (stdout !== unbundled.stdout) throw new Error(`It printed ${stdout}`)
        return stdout.trim()
      })
    }
  }
}

/** Not a package that has only a command. */
function isLibrary({ manifest }: Packed): boolean {
  return manifest.publishConfig.exports?.['.'] !== undefined
}

async function minifiedKb(
  packed: Packed,
  project: string,
  packages: readonly Packed[],
): Promise<number> {
  const entry = join(project, `whole-${basename(packed.folder)}.js`)
  await writeFile(entry, `export * from '${packed.manifest.name}'`)
  const file = join(project, `whole-${basename(packed.folder)}.min.js`)
  const external = [...missingPeers(packages, project), '@langchain/core', '@langchain/langgraph']
  await bundle(byEsbuild({ format: 'esm', minify: true }), { project, entry, external }, file)
  return toKb((await stat(file)).size)
}

/** Median of five processes, in milliseconds. */
async function importMs(name: string, project: string): Promise<number> {
  const script = `const start = performance.now(); await import('${name}'); console.log(performance.now() - start)`
  const times: number[] = []
  for (let turn = 0; turn < 5; turn++) {
    const args = ['--input-type=module', '-e', script]
    const { stdout } = await run(process.execPath, args, { cwd: project })
    times.push(Number(stdout))
  }
  return times.toSorted((a, b) => a - b)[2] ?? Number.NaN
}

async function printImportTimes(project: string, packages: readonly Packed[]): Promise<void> {
  const core = await importMs('@langchain/core/tools', project)
  console.log(`import of @langchain/core/tools: ${core.toFixed()} ms`)
  for (const { manifest } of packages) {
    const ms = await importMs(manifest.name, project)
    console.log(
      `import of ${manifest.name}: ${ms.toFixed()} ms, ${(ms / core).toFixed(2)} times that`,
    )
  }
}

/** Reports a failure, and goes on. */
async function check(name: string, work: () => Promise<string>): Promise<void> {
  try {
    console.log(`ok    ${name}: ${await work()}`)
  } catch (error) {
    process.exitCode = 1
    const stderr = error instanceof Error && 'stderr' in error ? `\n${String(error.stderr)}` : ''
    console.error(`WRONG ${name}: ${String(error)}${stderr}`)
  }
}

async function withinBudget(kind: string, kb: number, budget: number | undefined): Promise<string> {
  if (budget === undefined) throw new Error(`It has ${kb} KB ${kind}, and no budget`)
  if (kb > budget) throw new Error(`It has ${kb} KB ${kind}, and the budget is ${budget} KB`)
  return `${kb} KB ${kind}, of ${budget} KB`
}

const folder = await mkdtemp(join(tmpdir(), 'bundles-'))
try {
  const all = await packAll(folder)
  const budgets: Budgets = JSON.parse(await readFile(BUDGETS, 'utf8'))
  const sizes: Budgets = { installedKb: {}, minifiedKb: {} }
  const project = join(folder, 'all')
  await install(project, [...all.map(({ tarball }) => tarball), ...(await peersOf(all)), ...TOOLS])
  for (const packed of all) {
    const name = basename(packed.folder)
    await check(packed.manifest.name, async () => {
      const kb = await installedKb(packed, all, join(folder, name))
      sizes.installedKb[name] = kb
      return withinBudget('installed', kb, budgets.installedKb[name])
    })
    if (!isLibrary(packed)) continue
    await check(packed.manifest.name, async () => {
      const kb = await minifiedKb(packed, project, all)
      sizes.minifiedKb[name] = kb
      return withinBudget('minified', kb, budgets.minifiedKb[name])
    })
  }
  await tryBundles(project, all)
  await printImportTimes(project, all.filter(isLibrary))
  if (process.argv.includes('--write')) {
    const withRoom = (of: Sizes): Sizes =>
      Object.fromEntries(Object.entries(of).map(([name, kb]) => [name, Math.ceil(kb * 1.1)]))
    const written = {
      installedKb: withRoom(sizes.installedKb),
      minifiedKb: withRoom(sizes.minifiedKb),
    }
    await writeFile(BUDGETS, `${JSON.stringify(written, undefined, 2)}\n`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
