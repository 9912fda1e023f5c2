// Packs every published package, installs each tarball alone into an empty project with npm, type-checks
// the example of its README with `skipLibCheck: false`, loads it with `require()`, runs the example
// against a real server, also on Bun, asks its commands for help, and looks at what an old Node.js says. A package
// without code to import has its command only.
/// <reference lib="esnext.disposable" />
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { startLegacyServer } from '../packages/mcp-testing/src/index.ts'
import { packAll, peersOf, withOurs } from './tarballs.ts'
import type { Manifest, Packed } from './tarballs.ts'

const run = promisify(execFile)
const EXAMPLE_URL = 'https://shop.example/mcp'

/** The first version that a range such as `^1.21.0` allows. */
function oldestOf(range: string): string {
  const [version] = /\d+\.\d+\.\d+/.exec(range) ?? []
  if (version === undefined) throw new Error(`The range "${range}" names no version`)
  return version
}

/** The required peers in the oldest versions that the packages accept. */
function oldestPeersOf(packages: readonly Packed[]): string[] {
  const peers = packages.flatMap(({ manifest }) =>
    Object.entries(manifest.peerDependencies ?? {})
      .filter(([name]) => manifest.peerDependenciesMeta?.[name]?.optional !== true)
      .map(([name, range]) => `${name}@${oldestOf(range)}`),
  )
  return [...new Set(peers)]
}

async function exampleOf({ folder, manifest }: Packed): Promise<string> {
  const readme = await readFile(join(folder, 'README.md'), 'utf8')
  const example = readme.match(/```ts\n([\s\S]*?)```/)?.[1]
  if (example === undefined) throw new Error(`The README of ${manifest.name} has no example`)
  return example
}

/** A package that only has a command has no example: `new-projects.ts` runs the command. */
async function tryCommand(packed: Packed, project: string): Promise<void> {
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  await run('npm', ['install', '--no-audit', '--no-fund', packed.tarball], { cwd: project })
  await assertWhatNpmShows(packed, project)
  await assertNoPrivateImports(packed, project)
  await runCommands(packed.manifest, project)
  await tryOldNode(packed.manifest, project)
  console.log(`ok    ${packed.manifest.name}`)
}

async function tryAlone(packed: Packed, all: readonly Packed[], project: string): Promise<void> {
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const example = await exampleOf(packed)
  const ours = withOurs(packed, all)
  const tools = ['typescript@7.0.2', '@types/node@24.19.2']
  if (example.includes("'@modelcontextprotocol/sdk/"))
    tools.push('@modelcontextprotocol/sdk@1.32.2')
  const isTest = example.includes("from 'vitest'")
  if (isTest) tools.push('vitest@5.1.1')
  const tarballs = [...ours.map(({ tarball }) => tarball), ...(await peersOf(ours))]
  await run('npm', ['install', '--no-audit', '--no-fund', ...tarballs, ...tools], { cwd: project })
  await assertWhatNpmShows(packed, project)
  await assertNoPrivateImports(packed, project)
  await requireEntries(packed.manifest, project)
  await runCommands(packed.manifest, project)
  await tryOldNode(packed.manifest, project)

  await installUsed(packed, all, project)
  await using server = await startLegacyServer()
  const file = isTest ? 'example.test.ts' : 'example.ts'
  await writeFile(join(project, file), example.replaceAll(EXAMPLE_URL, server.url))
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ ...TSCONFIG, include: [file] }))
  const tsc = join(project, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [tsc, '-p', '.'], { cwd: project })
  const vitest = [join(project, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--root', project]
  const command = isTest ? vitest : [file]
  const { stdout } = await run(process.execPath, command, { cwd: project, timeout: 300_000 })
  if (bun !== undefined && !isTest) await run(bun, [file], { cwd: project, timeout: 300_000 })
  if (packed.manifest.name.endsWith('/langchain-mcp')) await checkInCommonJs(project, tsc)
  console.log(`ok    ${packed.manifest.name}: ${stdout.trim().replaceAll('\n', ' | ')}`)
}

/** Installs other packages of ours that the example uses. A package must work alone before. */
async function installUsed(packed: Packed, all: readonly Packed[], project: string): Promise<void> {
  const [example, ours] = [await exampleOf(packed), withOurs(packed, all)]
  const used = all.filter(({ manifest }) => example.includes(`'${manifest.name}'`))
  const needed = new Set(used.flatMap((one) => withOurs(one, all)))
  const added = [...needed].filter((one) => !ours.includes(one))
  if (added.length === 0) return
  const tarballs = [...added.map(({ tarball }) => tarball), ...(await peersOf(added))]
  await run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: project })
}

/** Type-checks the use of tools in a CommonJS module, which gets other declarations of LangChain. */
async function checkInCommonJs(project: string, tsc: string): Promise<void> {
  const text = `
    import { createMcpTools } from '@x/langchain-mcp'
    import { ToolNode } from '@langchain/langgraph/prebuilt'
    import { createAgent } from 'langchain'
    export async function agentOf(url: string): Promise<unknown> {
      const tools = await createMcpTools({ servers: { shop: { url } } }).listTools()
      return [new ToolNode(tools), createAgent({ model: 'any', tools })]
    }`
  await run('npm', ['install', '--no-audit', '--no-fund', 'langchain@1.5.14'], { cwd: project })
  await writeFile(join(project, 'common.cts'), text)
  // The declarations of LangChain itself are not free of errors.
  const compilerOptions = { ...TSCONFIG.compilerOptions, skipLibCheck: true }
  const config = join(project, 'tsconfig.common.json')
  await writeFile(config, JSON.stringify({ compilerOptions, include: ['common.cts'] }))
  await run(process.execPath, [tsc, '-p', config], { cwd: project })
}

/** Loads all entries, and runs the example, with the oldest peers. Types are those of the newest ones. */
async function tryOldestPeers(
  packed: Packed,
  all: readonly Packed[],
  project: string,
): Promise<void> {
  const ours = withOurs(packed, all)
  const peers = oldestPeersOf(ours)
  if (peers.length === 0) return
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const tarballs = [...ours.map(({ tarball }) => tarball), ...peers]
  await run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], { cwd: project })
  await requireEntries(packed.manifest, project)
  await using server = await startLegacyServer()
  const example = await exampleOf(packed)
  await installUsed(packed, all, project)
  await writeFile(join(project, 'example.ts'), example.replaceAll(EXAMPLE_URL, server.url))
  await run(process.execPath, ['example.ts'], { cwd: project, timeout: 300_000 })
  console.log(`ok    ${packed.manifest.name} with ${peers.join(' ')}`)
}

/** npm shows the manifest and the README of a package: they name the project, and no file of its workspace. */
async function assertWhatNpmShows({ manifest }: Packed, project: string): Promise<void> {
  const folder = join(project, 'node_modules', manifest.name)
  const text = await readFile(join(folder, 'package.json'), 'utf8')
  const { author, bugs, homepage, keywords = [], repository } = JSON.parse(text)
  for (const [field, value] of Object.entries({ author, bugs, homepage, repository })) {
    if (value === undefined) throw new Error(`The package.json of the tarball has no "${field}"`)
  }
  if (!keywords.includes('mcp')) throw new Error('The package.json of the tarball has no keywords')
  if (/@x\/internal|workspace:|catalog:/.test(text)) {
    throw new Error('The package.json of the tarball names what only the workspace has')
  }
  const readme = await readFile(join(folder, 'README.md'), 'utf8')
  const relative = readme.match(/\]\((?!https:|#)[^)]*\)/g) ?? []
  if (relative.length > 0) throw new Error(`The README has dead links: ${relative.join(' ')}`)
}

/**
 * The build copies the private helpers into the output, also into the declarations. Source maps contain the text of
 * the sources, because no sources are published: they would import the private helpers.
 */
async function assertNoPrivateImports(packed: Packed, project: string): Promise<void> {
  const folder = join(project, 'node_modules', packed.manifest.name)
  const dist = join(folder, 'dist')
  if ((await readdir(folder)).includes('src')) throw new Error('The tarball contains src')
  for (const file of await readdir(dist, { recursive: true })) {
    if (!/\.(?:js|d\.ts|map)$/.test(file)) continue
    const text = await readFile(join(dist, file), 'utf8')
    if (!file.endsWith('.map')) {
      if (text.includes('@x/internal')) throw new Error(`dist/${file} refers to @x/internal`)
      const [, map] = /sourceMappingURL=(.+)/.exec(text) ?? []
      // A module that only imports and exports, and one of the bundler itself, have no code that a map could explain.
      const code = text.replaceAll(/^(?:import|export) [^"\n]*(?:"[^"\n]*")?;$/gm, '').trim()
      const isOwn = !file.startsWith('rolldown-runtime-')
      const isCode = file.endsWith('.js') && isOwn && code !== ''
      if (isCode && map === undefined) throw new Error(`dist/${file} has no map`)
      continue
    }
    const { sources, sourcesContent = [] } = JSON.parse(text)
    const isWhole = sources.every((_: string, index: number) => sourcesContent[index])
    if (!isWhole) throw new Error(`dist/${file} refers to sources that are not published`)
  }
}

/** An old Node.js gets a sentence instead of the stack of a dependency. */
async function tryOldNode(manifest: Manifest, project: string): Promise<void> {
  if (oldNode === undefined) return
  const { name, publishConfig } = manifest
  const { exports, bin = {} } = publishConfig
  const entries = Object.keys(exports).filter((path) => !path.endsWith('.json'))
  const imports = entries.map((path) => ['-e', `import(${JSON.stringify(join(name, path))})`])
  const commands = Object.keys(bin).map((one) => [join(project, 'node_modules', '.bin', one)])
  for (const args of [...imports, ...commands]) {
    const output = await run(oldNode, args, { cwd: project }).then(() => 'it works', outputOf)
    if (lacksOptionalPeer(manifest, output)) continue
    if (!output.includes(`Error: ${name} needs Node.js `))
      throw new Error(`${args.join(' ')}: ${output}`)
  }
}

/** Its package for other systems has another name. */
async function installBun(project: string): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true }')
  const name = '@oven/bun-linux-x64'
  await run('npm', ['install', '--no-audit', '--no-fund', `${name}@1.4.5`], { cwd: project })
  return join(project, 'node_modules', name, 'bin', 'bun')
}

/** The first Node.js on the PATH that the packages do not support. */
async function findOldNode(): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const node = join(folder, 'node')
    const version = await run(node, ['--version']).then(
      ({ stdout }) => stdout.trim(),
      () => '',
    )
    if (/^v(?:1\d|2[01])\./.test(version)) return node
  }
  return undefined
}

/** `require()` of an ES module fails where anything in it needs a top-level await. */
async function requireEntries(manifest: Manifest, project: string): Promise<void> {
  const paths = Object.keys(manifest.publishConfig.exports)
  for (const path of paths.filter((one) => one !== './package.json')) {
    const name = JSON.stringify(join(manifest.name, path))
    const script = `if (Object.keys(require(${name})).length === 0) throw new Error(${name})`
    const required = run(process.execPath, ['--input-type=commonjs', '-e', script], {
      cwd: project,
    })
    await required.catch((error: unknown) => {
      if (!lacksOptionalPeer(manifest, outputOf(error))) throw error
    })
  }
}

/** A path of its own may need a peer that only its users have. */
function lacksOptionalPeer({ peerDependenciesMeta = {} }: Manifest, output: string): boolean {
  return Object.entries(peerDependenciesMeta).some(
    ([name, { optional }]) => optional === true && output.includes(`Cannot find package '${name}'`),
  )
}

async function runCommands({ publishConfig }: Manifest, project: string): Promise<void> {
  for (const name of Object.keys(publishConfig.bin ?? {})) {
    const command = join(project, 'node_modules', '.bin', name)
    const { stdout } = await run(command, ['--help'], { timeout: 300_000 })
    if (!stdout.startsWith(`Usage: ${name} `)) throw new Error(`${name} --help: ${stdout}`)
  }
}

/** What a command wrote before it failed tells more than that it failed. */
function outputOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const written = 'stdout' in error && 'stderr' in error ? [error.stdout, error.stderr] : []
  return [error.message, ...written.map(String)].join('\n')
}

/** What `tsc --init` gives, in short; without `lib`, because the SDK's own types want the DOM's. */
const TSCONFIG = {
  compilerOptions: {
    target: 'ES2023',
    module: 'NodeNext',
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
  },
}

const oldNode = await findOldNode()
if (oldNode === undefined)
  console.log('There is no Node.js older than 22 here: its error is not tested')
const folder = await mkdtemp(join(tmpdir(), 'pack-test-'))
const bun = await installBun(join(folder, 'bun'))
if (bun === undefined) console.log('Bun is tested on Linux x64 only')
try {
  const all = await packAll(folder)
  let failed = 0
  for (const packed of all) {
    const project = join(folder, packed.manifest.name.replaceAll('/', '-'))
    try {
      if (packed.manifest.publishConfig.exports['.'] === undefined) {
        await tryCommand(packed, project)
        continue
      }
      await tryAlone(packed, all, project)
      await tryOldestPeers(packed, all, `${project}-oldest`)
    } catch (error) {
      failed++
      console.error(`WRONG ${packed.manifest.name}: ${outputOf(error)}`)
    }
  }
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  await rm(folder, { recursive: true, force: true })
}
