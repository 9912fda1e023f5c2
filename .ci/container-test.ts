// Builds and starts the images of the examples without Docker: does in a folder what each line of their Dockerfiles says,
// with the packages of this checkout from tarballs. The folder is read-only, and root runs it as the user of the image.
//
//   pnpm container-test     needs `pnpm build` before, apt-get and dpkg-deb
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join, matchesGlob, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { packAll } from './tarballs.ts'
import type { Packed } from './tarballs.ts'

const run = promisify(execFile)
const EXAMPLES = fileURLToPath(new URL('../examples', import.meta.url))
const MB = 1_000_000
const MAX_IMAGE = 250 * MB
const BASE_IMAGE = 'gcr.io/distroless/nodejs24-debian13:nonroot'
/** What that image has besides Node.js. Its parts are packages of this release of Debian. */
const DEBIAN = 'trixie'
const BASE_PACKAGES = [
  'base-files',
  'ca-certificates',
  'gcc-14-base',
  'libc6',
  'libgcc-s1',
  'libgomp1',
  'libssl3t64',
  'libstdc++6',
  'libzstd1',
  'media-types',
  'netbase',
  'tzdata',
  'zlib1g',
]
/** Variables without a default in the configurations of the examples. */
const ENV = {
  MCP_TOKEN: 'a-token-for-this-test',
  GATEWAY_STATE_KEY: 'a key of more than thirty-two characters',
  REDIS_URL: 'redis://127.0.0.1:1',
  DATABASE_URL: 'postgres://127.0.0.1:1/postgres',
  HOST: '127.0.0.1',
}

/** An image, or a stage of its build. */
interface Stage {
  /** Folder that stands for `/`. */
  readonly root: string
  workdir: string
  readonly env: Record<string, string>
  uid: number
  entrypoint: readonly string[]
  cmd: readonly string[]
  healthcheck: readonly string[]
}

const folder = await mkdtemp(join(tmpdir(), 'container-test-'))
await chmod(folder, 0o755) // also for the user of the image
try {
  const all = await packAll(folder)
  const names = (await readdir(EXAMPLES)).filter((name) => {
    return existsSync(join(EXAMPLES, name, 'Dockerfile'))
  })
  const texts = await Promise.all(
    names.map((name) => readFile(join(EXAMPLES, name, 'Dockerfile'), 'utf8')),
  )
  if (new Set(texts).size !== 1) throw new Error('The Dockerfiles of the examples differ')
  await downloadBase()
  for (const name of names) {
    const image = await build(await contextOf(name, all))
    const bytes = await sizeOf(image.root)
    if (bytes > MAX_IMAGE) throw new Error(`The image of ${name} has ${bytes / MB} MB`)
    await makeReadOnly(image.root)
    if (name === 'gateway-docker') await assertTools(image, ['orders'])
    await tryImage(image)
    console.log(`ok    ${name} (${Math.round(bytes / MB)} MB)`)
  }
} finally {
  await run('chmod', ['-R', 'u+w', folder])
  await rm(folder, { recursive: true, force: true })
}

/** Copies an example as its user has it after `npm install`, which writes the lockfile. */
async function contextOf(name: string, all: readonly Packed[]): Promise<string> {
  const context = join(folder, name)
  await cp(join(EXAMPLES, name), context, {
    recursive: true,
    filter: (path) => basename(path) !== 'node_modules',
  })
  const file = join(context, 'package.json')
  const { dependencies, devDependencies, ...rest } = JSON.parse(await readFile(file, 'utf8'))
  const ours = Object.fromEntries(all.map((each) => [each.manifest.name, `file:${each.tarball}`]))
  const fromTarballs = (versions: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(versions).map(([each, version]) => [each, ours[each] ?? version]),
    )
  const manifest = {
    ...rest,
    dependencies: fromTarballs(dependencies),
    devDependencies: fromTarballs(devDependencies),
    overrides: ours,
  }
  await writeFile(file, JSON.stringify(manifest))
  const install = ['install', '--package-lock-only', '--no-audit', '--no-fund']
  await run('npm', install, { cwd: context, env: processEnv() })
  return context
}

/** Does what the instructions of a Dockerfile say. Knows only those that the examples have. */
async function build(context: string): Promise<Stage> {
  const text = await readFile(join(context, 'Dockerfile'), 'utf8')
  const lines = text.replaceAll(/\\\n/g, ' ').split('\n')
  const stages = new Map<string, Stage>()
  let stage: Stage | undefined
  for (const line of lines.filter((each) => /^\s*[A-Z]/.test(each))) {
    const [, keyword = '', rest = ''] = /^\s*(\w+)\s+(.*)$/.exec(line) ?? []
    if (keyword === 'FROM') {
      const [, name = `${stages.size}`] = / AS (\S+)$/.exec(rest) ?? []
      stage = await newStage()
      if (rest.startsWith(BASE_IMAGE)) await addBase(stage)
      stages.set(name, stage)
      continue
    }
    if (!stage) throw new Error('A Dockerfile begins with FROM')
    await apply(stage, { keyword, rest, context, stages })
  }
  if (!stage) throw new Error('The Dockerfile is empty')
  return stage
}

/** Downloads the packages of the base image, without root, and without a change to the packages of this machine. */
async function downloadBase(): Promise<void> {
  const debs = join(folder, 'debs')
  for (const name of ['lists/partial', 'archives/partial']) {
    await mkdir(join(debs, name), { recursive: true })
  }
  // Nothing of the packages runs, so their signatures need not be known here.
  const source = `deb [trusted=yes] http://deb.debian.org/debian ${DEBIAN} main\n`
  await writeFile(join(debs, 'sources.list'), source)
  await writeFile(join(debs, 'status'), '')
  const settings = {
    'Dir::Etc::SourceList': join(debs, 'sources.list'),
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::State::Lists': join(debs, 'lists'),
    'Dir::State::status': join(debs, 'status'),
    'Dir::Cache': debs,
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
  }
  const options = Object.entries(settings).map(([key, value]) => `--option=${key}=${value}`)
  await run('apt-get', [...options, 'update'], { cwd: debs })
  await run('apt-get', [...options, 'download', ...BASE_PACKAGES], { cwd: debs })
}

async function addBase({ root }: Stage): Promise<void> {
  const debs = join(folder, 'debs')
  for (const name of await readdir(debs)) {
    if (name.endsWith('.deb')) await run('dpkg-deb', ['--extract', join(debs, name), root])
  }
}

async function newStage(): Promise<Stage> {
  const root = await mkdtemp(join(folder, 'root-'))
  await chmod(root, 0o755)
  await mkdir(join(root, 'nodejs/bin'), { recursive: true })
  await copyFile(process.execPath, join(root, 'nodejs/bin/node'))
  return { root, workdir: '/', env: {}, uid: 0, entrypoint: [], cmd: [], healthcheck: [] }
}

interface Instruction {
  readonly keyword: string
  readonly rest: string
  readonly context: string
  readonly stages: ReadonlyMap<string, Stage>
}

async function apply(stage: Stage, instruction: Instruction): Promise<void> {
  const { keyword, rest } = instruction
  const cwd = join(stage.root, stage.workdir)
  switch (keyword) {
    case 'WORKDIR':
      stage.workdir = rest
      await mkdir(join(stage.root, rest), { recursive: true })
      return
    case 'COPY':
      return copy(stage, instruction)
    case 'RUN': {
      // `npm ci` refuses a lockfile without the packages of other systems, which some registries do not have.
      const command = rest.replace('npm ci', 'npm install')
      await run('sh', ['-c', command], { cwd, env: processEnv(stage.env), maxBuffer: 10 * MB })
      return
    }
    case 'ENV': {
      const [name = '', value = ''] = rest.split('=')
      stage.env[name] = value
      return
    }
    case 'USER':
      stage.uid = Number.parseInt(rest)
      return
    case 'ENTRYPOINT':
      stage.entrypoint = JSON.parse(rest)
      return
    case 'CMD':
      stage.cmd = JSON.parse(rest)
      return
    case 'HEALTHCHECK':
      // The image has no shell: the command must be a list.
      stage.healthcheck = JSON.parse(rest.slice(rest.indexOf('CMD ') + 4))
      return
    case 'EXPOSE':
      return
    default:
      throw new Error(`This test does not know ${keyword}`)
  }
}

async function copy(stage: Stage, { rest, context, stages }: Instruction): Promise<void> {
  const words = rest.split(/\s+/)
  const from = words[0]?.startsWith('--from=') ? words.shift()?.slice('--from='.length) : undefined
  const target = join(stage.root, stage.workdir, words.pop() ?? '')
  if (from !== undefined) {
    const source = stages.get(from)
    if (!source) throw new Error(`There is no stage ${from}`)
    for (const word of words) await copyAll(join(source.root, word), target)
    return
  }
  const ignored = (await readFile(join(context, '.dockerignore'), 'utf8'))
    .split('\n')
    .filter(Boolean)
  const isKept = (path: string): boolean => {
    const name = relative(context, path)
    return !ignored.some((pattern) => name === pattern || matchesGlob(name, pattern))
  }
  for (const word of words) {
    const source = join(context, word)
    const isFolder = (await stat(source)).isDirectory()
    await copyAll(source, isFolder ? target : join(target, word), isKept)
  }
}

function copyAll(
  from: string,
  to: string,
  filter: (path: string) => boolean = () => true,
): Promise<void> {
  return cp(from, to, { recursive: true, verbatimSymlinks: true, filter })
}

/** Number of bytes of all files. */
async function sizeOf(path: string): Promise<number> {
  const entries = await readdir(path, { withFileTypes: true, recursive: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function makeReadOnly(root: string): Promise<void> {
  await run('chmod', ['-R', 'a-w,a+rX', root])
}

/** Command, arguments and options of a process in the image. */
function inImage(image: Stage, [program = '', ...args]: readonly string[], port = 0) {
  const cwd = join(image.root, image.workdir)
  if (image.uid === 0) throw new Error('The image runs as root')
  const user = process.getuid?.() === 0 ? { uid: image.uid, gid: image.uid } : {}
  // Nothing may be written, also not in a home or in a folder for temporary files.
  const env = { ...image.env, ...ENV, PORT: String(port), HOME: image.root, TMPDIR: image.root }
  return [join(image.root, program), args, { cwd, env, ...user }] as const
}

async function assertTools(image: Stage, expected: readonly string[]): Promise<void> {
  const command = [...image.entrypoint, 'check', 'gateway.yaml', '--json']
  const { stdout } = await run(...inImage(image, command))
  const { tools }: { tools: readonly { readonly name: string }[] } = JSON.parse(stdout)
  const names = tools.map(({ name }) => name)
  if (names.join() !== expected.join()) throw new Error(`The image has the tools ${names.join()}`)
}

/** Starts an image, asks its health check, and ends it as Docker does. */
async function tryImage(image: Stage): Promise<void> {
  const port = await freePort()
  const isHealthy = (): Promise<boolean> =>
    run(...inImage(image, image.healthcheck, port)).then(
      () => true,
      () => false,
    )
  if (await isHealthy()) throw new Error('The health check succeeds without a gateway')
  const [program, args, options] = inImage(image, [...image.entrypoint, ...image.cmd], port)
  const gateway = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(gateway, 'exit')
  try {
    const line = once(createInterface({ input: gateway.stdout }), 'line')
    const [url] = await Promise.race([line, exited])
    if (!String(url).startsWith('http')) throw new Error('The gateway did not start')
    if (!(await isHealthy())) throw new Error('The health check fails')
    const { status } = await fetch(url, { method: 'POST' })
    if (status !== 401) throw new Error(`A call without a token is answered with ${status}`)
  } finally {
    gateway.kill('SIGTERM')
  }
  const [code] = await exited
  if (code !== 0) throw new Error(`The gateway ended with ${code} after SIGTERM`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Environment of npm, on the Node.js of this process. */
function processEnv(own: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`
  return { ...process.env, ...own, PATH }
}
