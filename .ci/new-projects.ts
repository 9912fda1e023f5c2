// Tries what the commands of the packages create, with the packages of this checkout from tarballs: the projects of
// `create-mcp-agent`, and what `mcp-gateway init` writes into an empty folder. Installs them in one temporary workspace,
// with the newest versions that they accept, type-checks them, runs their tests, and calls the tools of their gateways
// over HTTP. Needs `pnpm build` before.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { packAll } from './tarballs.ts'

const TEMPLATES = ['agent', 'gateway', 'both'] as const
/** Packages with an install script that the projects do not need. */
const WITHOUT_SCRIPTS = { esbuild: false, 'msgpackr-extract': false }

/** Lists that are asked for before a gateway counts as empty. */
const MAX_LISTS = 400

const folder = await mkdtemp(join(tmpdir(), 'new-projects-'))
const workspace = join(folder, 'workspace')
const env = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`,
}

try {
  const all = await packAll(folder)
  const commands = all.filter(({ manifest }) =>
    /\/(?:create-mcp-agent|mcp-gateway)$/.test(manifest.name),
  )
  const tools = join(folder, 'tools')
  await mkdir(tools)
  await writeFile(join(tools, 'package.json'), '{ "private": true }')
  const tarballs = commands.map(({ tarball }) => tarball)
  await run(tools, 'npm', 'install', '--no-audit', '--no-fund', ...tarballs)
  const command = (name: string): string => join(tools, 'node_modules', '.bin', name)

  await mkdir(join(workspace, 'first'), { recursive: true })
  for (const template of TEMPLATES) {
    await run(workspace, command('create-mcp-agent'), template, '--yes', '--template', template)
  }
  await run(join(workspace, 'first'), command('mcp-gateway'), 'init')
  const ours = all.map(({ manifest, tarball }) => [manifest.name, `file:${tarball}`])
  const settings = {
    packages: ['*'],
    overrides: Object.fromEntries(ours),
    strictDepBuilds: true,
    allowBuilds: WITHOUT_SCRIPTS,
  }
  await writeFile(join(workspace, 'pnpm-workspace.yaml'), JSON.stringify(settings)) // JSON is YAML
  await writeFile(join(workspace, 'package.json'), '{ "private": true }')
  await run(workspace, 'npx', '--yes', 'pnpm@12', 'install', '--no-frozen-lockfile')

  for (const template of TEMPLATES) {
    const project = join(workspace, template)
    await run(project, 'npm', 'run', 'typecheck')
    await run(project, 'npm', 'test')
    if (template !== 'agent') await tryGateway(project)
    console.log(`ok    create-mcp-agent --template ${template}`)
  }
  await tryGateway(join(workspace, 'first'))
  console.log('ok    mcp-gateway init')
  await assertAgentStarts(join(workspace, 'agent'))
  console.log('ok    npm start of the agent, twice with one server')
} catch (error) {
  process.exitCode = 1
  console.error(`WRONG ${outputOf(error)}`)
} finally {
  await rm(folder, { recursive: true, force: true })
}

/** Checks the configuration, starts the gateway on a free port, and lists its tools over HTTP. */
async function tryGateway(project: string): Promise<void> {
  await run(project, 'npm', 'run', 'check')
  const cli = join(project, 'node_modules', '.bin', 'mcp-gateway')
  const gateway = spawn(cli, ['--port', '0'], {
    cwd: project,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(gateway, 'close')
  try {
    const [url] = await once(createInterface({ input: gateway.stdout }), 'line')
    // A busy machine may load the graph after the time for which a first list waits: then it is empty.
    let names = ''
    for (let attempt = 0; names === '' && attempt < MAX_LISTS; attempt++) {
      if (attempt > 0) await setTimeout(500)
      const { result } = await rpc(url, 'tools/list')
      names = result.tools.map(({ name }: { readonly name: string }) => name).join()
    }
    if (names !== 'assistant') throw new Error(`${project} offers the tools "${names}"`)
  } finally {
    gateway.kill()
    await ended
  }
}

/** Sends a request of the stateless revision, which needs no session. */
async function rpc(url: string, method: string) {
  const version = '2026-07-28'
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': { name: 'new-projects', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version,
      'mcp-method': method,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta: meta } }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method}: ${response.status} ${text}`)
  return JSON.parse(text.replace(/^[^]*?^data: /m, ''))
}

/** Runs the agent in two processes, with the server that its `npm run server` starts. */
async function assertAgentStarts(project: string): Promise<void> {
  const port = String(await freePort())
  const server = spawn('npm', ['run', 'server'], {
    cwd: project,
    env: { ...env, PORT: port },
    detached: true, // npm starts the server in a process of its own
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(server, 'close')
  try {
    const lines = createInterface({ input: server.stderr })
    for await (const line of lines) if (line.includes(port)) break
    const asked = { ...env, MCP_URL: `http://127.0.0.1:${port}/mcp` }
    for (const word of ['one', 'two']) {
      const args = ['start', '--silent', '--', `echo {"message":"${word}"}`]
      const { stdout } = await promisify(execFile)('npm', args, { cwd: project, env: asked })
      if (!stdout.includes(`Echo: ${word}`)) throw new Error(`npm start printed ${stdout}`)
    }
  } finally {
    if (server.pid !== undefined) process.kill(-server.pid)
    await ended
  }
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (address === null || typeof address === 'string') throw new Error('There is no free port')
  return address.port
}

async function run(cwd: string, command: string, ...args: readonly string[]): Promise<void> {
  await promisify(execFile)(command, args, { cwd, env, timeout: 600_000 })
}

/** What a command wrote before it failed tells more than that it failed. */
function outputOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const written = 'stdout' in error && 'stderr' in error ? [error.stdout, error.stderr] : []
  return [error.message, ...written.map(String)].join('\n')
}
