// redis-server, PostgreSQL and nginx of this machine, each on a free port or in a temporary folder.
import { execFile, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Folders of programs. Debian does not put those of servers on the PATH of a user. */
const FOLDERS = [
  ...(process.env['PATH'] ?? '').split(delimiter),
  '/usr/sbin',
  ...(existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : []).map(
    (version) => `/usr/lib/postgresql/${version}/bin`,
  ),
]

function program(name: string): string {
  const folder = FOLDERS.find((each) => existsSync(join(each, name)))
  if (folder === undefined) throw new Error(`There is no ${name} on this machine`)
  return join(folder, name)
}

/** A process and what it has written. */
export class Process implements AsyncDisposable {
  readonly lines: string[] = []
  readonly #child: ChildProcess
  /** Resolves with the exit code. */
  readonly exited: Promise<number | null>

  constructor(command: string, args: readonly string[], options: SpawnOptions = {}) {
    this.#child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    this.exited = once(this.#child, 'close').then(([code]) => code)
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.lines.push(line))
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Resolves with the first line that matches. */
  async said(pattern: RegExp): Promise<string> {
    let isOver = false
    void this.exited.then(() => (isOver = true))
    for (;;) {
      const found = this.lines.find((line) => pattern.test(line))
      if (found !== undefined) return found
      if (isOver) throw new Error(`It ended without ${pattern}: ${this.lines.join('\n')}`)
      await sleep(20)
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** Resolves with the exit code. */
  end(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.signal(signal)
    return this.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL')
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

export interface Server extends AsyncDisposable {
  readonly url: string
}

export async function startRedis(): Promise<Server> {
  const port = await freePort()
  const settings = `--port ${port} --bind 127.0.0.1 --appendonly no --maxmemory-policy noeviction`
  const redis = new Process(program('redis-server'), [...settings.split(' '), '--save', ''])
  await redis.said(/Ready to accept connections/)
  return {
    url: `redis://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  }
}

/** It listens on a socket in a temporary folder. PostgreSQL refuses to run as root. */
export async function startPostgres(): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-postgres-'))
  const nobody = process.getuid?.() === 0 ? { uid: 65_534 } : {}
  if (nobody.uid !== undefined) await chown(folder, nobody.uid, -1)
  const data = join(folder, 'data')
  const settings = '--username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync'
  await run(program('initdb'), [...settings.split(' '), '--pgdata', data], nobody)
  const options = ['listen_addresses=', 'fsync=off', `unix_socket_directories=${folder}`]
  const args = ['-D', data, ...options.flatMap((option) => ['-c', option])]
  const postgres = new Process(program('postgres'), args, nobody)
  await postgres.said(/ready to accept connections/)
  return {
    url: `postgresql://postgres@localhost/postgres?host=${encodeURIComponent(folder)}`,
    async [Symbol.asyncDispose]() {
      await postgres.end('SIGQUIT')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export interface Nginx extends AsyncDisposable {
  /** `http://127.0.0.1:port` */
  readonly url: string
  /** Sends requests to these ports only. Resolves when no more requests go to others. */
  balance(ports: readonly (number | 'down')[]): Promise<void>
}

/** Serves `nginx.conf` of the example. Only its addresses are those of this machine. */
export async function startNginx(ports: readonly number[]): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-nginx-'))
  const port = await freePort()
  const example = await readFile('nginx.conf', 'utf8')
  const known = [...ports]
  const configure = async (now: readonly (number | 'down')[]): Promise<void> => {
    const own = known.reduce(
      (text, each, index) => {
        const state = now[index] === 'down' ? ' down' : ''
        return text.replace(
          `server gateway-${index + 1}:8000;`,
          `server 127.0.0.1:${each}${state};`,
        )
      },
      example.replace('listen 8080;', `listen 127.0.0.1:${port};`),
    )
    await writeFile(join(folder, 'gateways.conf'), own)
  }
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const main = `
    daemon off;
    pid ${folder}/pid;
    events {}
    http {
      access_log off;
      ${paths.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}
      include ${folder}/gateways.conf;
    }`
  await configure(ports)
  await writeFile(join(folder, 'nginx.conf'), main)
  const args = ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')]
  const nginx = new Process(program('nginx'), args)
  const url = `http://127.0.0.1:${port}`
  while (
    !(await fetch(url).then(
      () => true,
      () => false,
    ))
  ) {
    if ((await workersOf(nginx.pid)).length === 0 && nginx.lines.length > 0) {
      throw new Error(nginx.lines.join('\n'))
    }
    await sleep(20)
  }
  return {
    url,
    balance: async (now) => {
      for (const [index, each] of now.entries()) if (each !== 'down') known[index] = each
      await configure(now)
      const old = await workersOf(nginx.pid)
      nginx.signal('SIGHUP')
      // The master has new workers when it tells the old ones to accept no more connections.
      while (!(await Promise.all(old.map(isLeaving))).every(Boolean)) await sleep(20)
    },
    async [Symbol.asyncDispose]() {
      await nginx.end('SIGTERM')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function workersOf(pid: number): Promise<readonly string[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return children.split(' ').filter(Boolean)
}

async function isLeaving(pid: string): Promise<boolean> {
  const title = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return title === '' || title.includes('shutting down')
}
