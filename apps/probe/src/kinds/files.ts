// Files of one caller, asked for by others, and names of files that are paths.
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { isRecord } from '@x/internal'
import { temporaryFolder } from '@x/internal/testing'
import { DiskGatewayStore } from '@x/mcp-gateway'
import { at, bearer, jsonOf, modern, Session, statusIn, toAnswer, wire } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import {
  allStores,
  honestClients,
  knownCallers,
  startTarget,
  TOKENS,
  type Target,
} from '../target.ts'

const ada = { token: TOKENS.ada }
const bob = { token: TOKENS.bob }

/** A file of `ada`. @returns its URI with the version */
async function fileOf(target: Target, name = 'hers.txt'): Promise<string> {
  const url = new URL(`/artifacts/${encodeURIComponent(name)}`, target.url)
  const response = await fetch(url, { method: 'PUT', body: 'secret', headers: bearer(ada.token) })
  const answer: unknown = jsonOf(await response.text())
  return isRecord(answer) ? String(answer['uri']) : ''
}

const download = (target: Target, uri: string, token?: string): Promise<Response> =>
  fetch(new URL(uri.replace('artifact://', '/artifacts/'), target.url), { headers: bearer(token) })

/** Requests of `bob` with the URI of a file of another caller. The answers must not contain the file. */
const WITH_HER_FILE: Readonly<
  Record<string, (target: Target, uri: string) => Promise<{ text: string; isRefused: boolean }>>
> = {
  async 'reads it'(target, uri) {
    const answer = await modern(target, 'resources/read', { uri, ...bob })
    return { text: answer.text, isRefused: at(answer, 'error', 'code') === -32_602 }
  },
  async 'reads it without a version'(target, uri) {
    const answer = await modern(target, 'resources/read', { uri: uri.split('?')[0], ...bob })
    return { text: answer.text, isRefused: at(answer, 'error', 'code') === -32_602 }
  },
  async 'reads it in a session'(target, uri) {
    const answer = await (await Session.open(target, bob)).ask('resources/read', { uri })
    return { text: answer.text, isRefused: at(answer, 'error', 'code') === -32_602 }
  },
  async 'downloads it'(target, uri) {
    const response = await download(target, uri, bob.token)
    return { text: await response.text(), isRefused: response.status === 404 }
  },
  async 'downloads it without a credential'(target, uri) {
    const response = await download(target, uri)
    return { text: await response.text(), isRefused: response.status === 401 }
  },
  async 'downloads it by a link that he signed'(target, uri) {
    const exp = Math.floor(Date.now() / 1000) + 600
    const response = await download(target, `${uri}&exp=${exp}&sig=${'A'.repeat(43)}`)
    return { text: await response.text(), isRefused: response.status === 404 }
  },
  async 'gives it to an agent'(target, uri) {
    const args = { message: 'stolen file', files: [uri] }
    const answer = await modern(target, 'tools/call', { name: 'echo', arguments: args, ...bob })
    return { text: answer.text, isRefused: at(answer, 'result', 'isError') === true }
  },
  async 'follows it'(target, uri) {
    const answer = await (await Session.open(target, bob)).ask('resources/subscribe', { uri })
    return { text: answer.text, isRefused: at(answer, 'error', 'code') === -32_602 }
  },
  async 'listens to it'(target, uri) {
    const notifications = { resourceSubscriptions: [uri.split('?')[0]] }
    const answer = await modern(target, 'subscriptions/listen', { notifications, ...bob })
    return { text: answer.text, isRefused: !answer.text.includes(uri.split('?')[0] ?? '') }
  },
  async 'lists the files'(target) {
    const answer = await modern(target, 'resources/list', bob)
    const found: unknown = at(answer, 'result', 'resources')
    return { text: answer.text, isRefused: Array.isArray(found) && !answer.text.includes('hers') }
  },
  async 'completes its name'(target, uri) {
    const scope = uri.slice('artifact://'.length).split('/')[0]
    const answer = await modern(target, 'completion/complete', {
      ref: { type: 'ref/resource', uri: 'artifact://{scope}/{name}{?version}' },
      argument: { name: 'name', value: 'her' },
      context: { arguments: { scope } },
      ...bob,
    })
    return { text: answer.text, isRefused: !answer.text.includes('hers.txt') }
  },
}

function fileProbes(target: Target): readonly Probe[] {
  return Object.entries(WITH_HER_FILE).map(([name, attack]) =>
    probe(
      `a file of another caller: ${name}`,
      async () => {
        const uri = await fileOf(target)
        const own = await (await download(target, uri, ada.token)).text()
        return { own, ...(await attack(target, uri)) }
      },
      ({ own, text, isRefused }) =>
        own === 'secret' && isRefused && !text.includes('secret') && !text.includes('c2VjcmV0'),
    ),
  )
}

function listProbes(target: Target): readonly Probe[] {
  return [
    probe(
      'the cursor of another caller',
      async () => {
        for (let n = 0; n < 3; n++) await fileOf(target, `hers ${n}.txt`)
        const cursors = [btoa('hers'), 'x', '', '__proto__']
        return Promise.all(
          cursors.map((cursor) => modern(target, 'resources/list', { cursor, ...bob })),
        )
      },
      (answers) => answers.every(({ text }) => !text.includes('hers')),
    ),
    probe(
      'a hundred guesses of a file',
      async () => {
        const madeUp = (): string =>
          randomBytes(16)
            .toString('hex')
            .replaceAll(/[^a-z2-7]/g, 'a')
            .slice(0, 26)
        const answers = await Promise.all(
          Array.from({ length: 100 }, () =>
            download(target, `artifact://${madeUp()}/hers.txt`, bob.token),
          ),
        )
        return [...new Set(answers.map(({ status }) => status))]
      },
      (statuses) => statuses.join() === '404',
    ),
  ]
}

function anonymousProbes(target: Target): readonly Probe[] {
  return [
    probe(
      'a file of another session, for callers without a name',
      async () => {
        const [one, other] = [await Session.open(target), await Session.open(target)]
        const drawn = await one.ask('tools/call', { name: 'draw', arguments: { message: 'x' } })
        const uri = /artifact:\/\/[^"]+/.exec(drawn.text)?.[0] ?? ''
        const own = await one.ask('resources/read', { uri })
        const read = await other.ask('resources/read', { uri })
        const plain = await modern(target, 'resources/read', { uri })
        const foreign = [read, plain, await toAnswer(await download(target, uri))]
        const lists = [await other.ask('resources/list'), await modern(target, 'resources/list')]
        return {
          own: own.text,
          foreign: foreign.map(({ text }) => text),
          lists: lists.map(({ text }) => text),
        }
      },
      ({ own, foreign, lists }) =>
        own.includes('secret') &&
        foreign.every((text) => !text.includes('secret')) &&
        lists.every((text) => text.includes('"resources":[]')),
    ),
  ]
}

/** Changes of a link to a file. None may open a file. */
const FORGED_LINKS: Readonly<Record<string, (link: URL) => void>> = {
  'another version': (link) => link.searchParams.set('version', '2'),
  'no version': (link) => link.searchParams.delete('version'),
  'a later end': (link) => link.searchParams.set('exp', '99999999999'),
  'an end that is no number': (link) => link.searchParams.set('exp', '9e9'),
  'an end in the past': (link) => link.searchParams.set('exp', '1'),
  'another signature': (link) => link.searchParams.set('sig', 'A'.repeat(43)),
  'an empty signature': (link) => link.searchParams.set('sig', ''),
  'a longer signature': (link) => link.searchParams.set('sig', `${link.searchParams.get('sig')}A`),
  'another file': (link) => void (link.pathname = link.pathname.replace('large', 'other')),
  'a name that is a path': (link) => void (link.pathname = `${link.pathname}%2f..%2fother.txt`),
  'another scope': (link) =>
    void (link.pathname = link.pathname.replace(/[a-z2-7]{26}/, 'a'.repeat(26))),
}

/** The link to a file that is too large to be read. */
async function linkOf(target: Target): Promise<URL> {
  for (const name of ['other.txt', 'large.txt']) {
    const body = `secret ${'x'.repeat(9_000_000)}`
    const url = new URL(`/artifacts/${name}`, target.url)
    await (await fetch(url, { method: 'PUT', body, headers: bearer(ada.token) })).text()
  }
  const listed = await modern(target, 'resources/list', ada)
  const uri = /artifact:[^"]*large\.txt/.exec(listed.text)?.[0]
  return new URL(
    String(
      at(await modern(target, 'resources/read', { uri, ...ada }), 'error', 'data', 'downloadUrl'),
    ),
  )
}

function linkProbes(target: Target): readonly Probe[] {
  let link: Promise<URL> | undefined
  const opened = async (change: (url: URL) => void): Promise<string> => {
    link ??= linkOf(target)
    const url = new URL(await link)
    change(url)
    const response = await fetch(url)
    return `${response.status} ${(await response.text()).slice(0, 6)}`
  }
  return [
    probe(
      'a link to a file',
      () => opened(() => undefined),
      (seen) => seen === '200 secret',
    ),
    ...Object.entries(FORGED_LINKS).map(([name, change]) =>
      probe(
        `a link with ${name}`,
        () => opened(change),
        (seen) => seen.startsWith('404'),
      ),
    ),
  ]
}

/** Names of uploads, as a part of the path. */
const NAMES: readonly string[] = [
  '..%2f..%2f..%2fescaped',
  '%2e%2e%2fescaped',
  '..%5cescaped',
  '%2fetc%2fescaped',
  'C:%5cescaped',
  'a%00b',
  '%0d%0aSet-Cookie:%20a=b',
  '%e2%80%aeescaped',
  '.',
  '..',
  '%2e',
  '__proto__',
  'con',
  'a'.repeat(255),
  'a'.repeat(256),
  '%ff',
  'artifacts%2findex',
]

/** Uploads to a store on disk. Files have hashes as their names there. */
async function uploadProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const folder = stack.use(await temporaryFolder())
  const store = stack.adopt(new DiskGatewayStore(folder.file('store')), (each) => each.close())
  const target = await startTarget(stack, { store, auth: knownCallers() })
  return NAMES.map((name) =>
    probe(
      `an upload named "${name.slice(0, 40)}"`,
      async () => {
        const headers = ['Host: localhost', `Authorization: Bearer ${TOKENS.ada}`]
        const answer = await wire(target.port, {
          line: `PUT /artifacts/${name} HTTP/1.1`,
          headers,
          body: 'uploaded',
        })
        const written = await readdir(folder.path, { recursive: true })
        return {
          answer,
          strange: written.filter(
            (path) => !/^store(?:\/gateway\.db.*|\/blobs(?:\/[\w.-]*)*)?$/.test(path),
          ),
        }
      },
      ({ answer, strange }) =>
        strange.length === 0 &&
        (statusIn(answer) === 201 || (statusIn(answer) >= 400 && statusIn(answer) < 500)) &&
        !/set-cookie:/i.test(answer.split('\r\n\r\n')[0] ?? ''),
    ),
  )
}

export const files: Kind = {
  name: 'files',
  rule: 'a file is read by its owner only, and written nowhere but into the store',
  async prepare(stack) {
    const probes: Probe[] = []
    const honest: Probe[] = []
    let stores = 0
    for await (const [name, store] of allStores(stack)) {
      stores++
      const options = { store, auth: knownCallers() }
      const target = await startTarget(stack, { ...options, stateKey: 'k'.repeat(32) })
      const all = [fileProbes, listProbes, linkProbes].flatMap((make) => make(target))
      probes.push(...all.map((each) => ({ ...each, name: `${name}: ${each.name}` })))
      honest.push(...honestClients(name, target, ada))
    }
    const open = await startTarget(stack)
    return {
      probes: [...probes, ...anonymousProbes(open), ...(await uploadProbes(stack))],
      honest: [...honest, ...honestClients('a gateway without auth', open)],
      ...(stores < 3 && { leftOut: 'a gateway on Redis: redis-server is not installed' }),
    }
  },
}
