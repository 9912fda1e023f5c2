// Does what the tutorials tell their readers to do, with the programs and the outputs of the pages themselves.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test.each(['agent-that-survives', 'calls-that-outlive'])('docs/start/%s.md', async (name) => {
  const page = await readFile(here(`../../../docs/start/${name}.md`), 'utf8')
  await using terminal = await openTerminal()
  const shown: string[] = []
  const seen: string[] = []
  for (const [, file = '', program, session] of page.matchAll(STEPS)) {
    if (program !== undefined) await terminal.save(file, program)
    else if (session === undefined) seen.push(await terminal.pressEnter())
    else {
      const lines = session.trimEnd().split('\n')
      shown.push(...lines.map(masked))
      const commands = lines.filter((line) => line.startsWith('$ '))
      for (const command of commands) seen.push(command, ...(await terminal.run(command)))
    }
  }
  expect(seen.filter((line) => line !== 'The shop was restarted')).toEqual(shown)
  expect(shown.length).toBeGreaterThan(5)
})

/** A program and the name of its file, the lines of a terminal, or a key that the reader presses. */
const STEPS =
  /`(\w+\.ts)`[^`]*(?:`[^`]+`[^`]*)*?\n\n```ts\n([^]*?)```|```console\n([^]*?)```|Press Enter/g

const masked = (line: string): string => line.replace(/127\.0\.0\.1:\d+/, '127.0.0.1:…')

/** Beside the packages of the playground, so that the programs find their imports. */
async function openTerminal() {
  const cwd = await mkdtemp(here('../.tutorial-'))
  const env = { ...process.env }
  let server: ChildProcess | undefined
  const nextLine = async (child: ChildProcess): Promise<string> => {
    if (child.stdout === null) throw new Error('The output of the server is not read')
    const lines = createInterface({ input: child.stdout })
    const [line] = await once(lines, 'line')
    lines.close()
    return String(line)
  }
  return {
    save: (file: string, program: string) => writeFile(join(cwd, file), program),
    /** Returns what the server says. */
    async pressEnter(): Promise<string> {
      if (server === undefined) throw new Error('No server runs yet')
      const line = nextLine(server)
      server.stdin?.write('\n')
      return line
    },
    /** Runs `$ node file.ts`. The first program is a server, which prints its address and goes on. */
    async run(command: string): Promise<string[]> {
      const [, file = ''] = /^\$ node (\w+\.ts)$/.exec(command) ?? []
      const args = ['--conditions=mcp-source', '--no-warnings', file]
      const child = spawn(sourceNode, args, { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] })
      if (server === undefined) {
        server = child
        const line = await nextLine(child)
        const [, name = '', url = ''] = /^export (\w+)=(\S+)$/.exec(line) ?? []
        env[name] = url
        return [masked(line)]
      }
      const [output, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')])
      const lines = output.split('\n').filter(Boolean)
      if (signal === 'SIGKILL') lines.push('Killed')
      if (signal === null && code !== 0) lines.push(`exit code ${code}`)
      return lines
    },
    async [Symbol.asyncDispose]() {
      if (server !== undefined && server.exitCode === null) {
        const exit = once(server, 'exit')
        server.kill('SIGKILL')
        await exit
      }
      await rm(cwd, { recursive: true })
    },
  }
}
