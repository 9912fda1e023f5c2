import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startProtectedServer } from './protected-server.ts'

/** Runs `code` in a process, and returns whether it has loaded the OAuth library. */
async function loadsOAuth(code: string): Promise<string> {
  return outputOf(`
    import { registerHooks } from 'node:module'
    let loads = false
    registerHooks({
      load(url, context, next) {
        if (url.includes('@modelcontextprotocol/client')) loads = true
        return next(url, context)
      },
    })
    ${code}
    process.stdout.write(String(loads))`)
}

/** Returns the outcome of the first request in a process where the OAuth library is not installed. */
async function withoutLibrary(code: string): Promise<string> {
  return outputOf(`
    import { registerHooks } from 'node:module'
    registerHooks({
      resolve(specifier, context, next) {
        return next(specifier === '@modelcontextprotocol/client' ? 'not-installed' : specifier, context)
      },
    })
    ${code}
    process.stdout.write(String((await answered).error?.data.cause.message ?? 'answered'))`)
}

async function outputOf(script: string): Promise<string> {
  const child = spawn(
    process.execPath,
    ['--conditions=mcp-source', '--no-warnings', '--input-type=module', '--eval', script],
    { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')])
  return output
}

const send = (provider: string, url: string): string => `
  const { StreamableHttpTransport } = await import('@x/mcp-transport')
  const { createAuthProvider, bearer } = await import('@x/mcp-transport/auth')
  const transport = new StreamableHttpTransport('${url}', { era: 'legacy', authProvider: ${provider} })
  const answered = new Promise((resolve) => { transport.onmessage = resolve })
  await transport.start()
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} })
  await answered
  await transport.close()`

/** A provider with this token, or without a token. */
const oauth = (token?: string): string =>
  `Object.assign(createAuthProvider({ redirectUrl: 'http://127.0.0.1:9/', redirect() {} }), {
    ${token === undefined ? '' : `tokens: () => ({ access_token: '${token}', token_type: 'Bearer' })`}
  })`

test('loads the OAuth library only after a refusal', async () => {
  await using server = await startProtectedServer()
  const { access_token: token } = server.issue()
  await expect(loadsOAuth(send(oauth(token), server.url))).resolves.toBe('false')
  await expect(loadsOAuth(send(oauth(), server.url))).resolves.toBe('true')
})

test('never loads the OAuth library for bearer tokens', async () => {
  await using server = await startProtectedServer()
  const { access_token: token } = server.issue()
  await expect(loadsOAuth(send(`bearer('${token}')`, server.url))).resolves.toBe('false')
  await expect(loadsOAuth(send(`bearer('other')`, server.url))).resolves.toBe('false')
})

test('fails without the library with an error that says what to install, for a server that requires OAuth', async () => {
  await using server = await startProtectedServer()
  await expect(withoutLibrary(send(oauth(), server.url))).resolves.toContain(
    'npm i @modelcontextprotocol/client',
  )
})

test('works without the library with bearer tokens and stored tokens', async () => {
  await using server = await startProtectedServer()
  const { access_token: token } = server.issue()
  await expect(withoutLibrary(send(`bearer('${token}')`, server.url))).resolves.toBe('answered')
  await expect(withoutLibrary(send(oauth(token), server.url))).resolves.toBe('answered')
})
