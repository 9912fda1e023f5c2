import { fileURLToPath } from 'node:url'
import { StaticServerDirectory } from '@x/mcp-client'
import { createGateway } from '@x/mcp-gateway'
import type { GraphDefinition } from '@x/mcp-gateway'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { readAgentDefinition } from '../agent/agent-file.ts'
import { buildAgent } from '../agent/build-agent.ts'
import { sessionOptionsFor } from '../../agent/execution-type.ts'
import { OfferedAgent } from '../agent/offered-agent.ts'
import { ScriptedChatModel } from '../agent/scripted-chat-model.ts'
import type { StepResult } from '../check.ts'
import type { Scene } from '../scene.ts'
import { offer } from './offer.ts'
import type { Offerable } from './offer.ts'

const SAMPLE = fileURLToPath(new URL('../agent.json', import.meta.url))

interface Stage extends AsyncDisposable {
  /** The sample agent with a counter of 1, in this process. */
  readonly agent: Offerable
  readonly graph: GraphDefinition
  /** What was wrong, by the name of its figures. */
  wrongFor(agent: Offerable, counter?: number): Promise<Readonly<Record<string, readonly string[]>>>
}

async function setStage(): Promise<Stage> {
  const owned: AsyncDisposable[] = []
  const own = <T extends AsyncDisposable>(one: T): T => {
    owned.unshift(one)
    return one
  }
  const server = own(await startLegacyServer())
  const proxy = own(await startRecordingProxy(server.url))
  const clients = {
    ...sessionOptionsFor('runtime'),
    directory: new StaticServerDirectory({ shop: proxy.url }),
  }
  const definition = await readAgentDefinition(SAMPLE)
  const model = new ScriptedChatModel()
  const built = own(await buildAgent({ definition, model, clients }))
  await built.ask('Count up by 1')
  const { offer: graph } = built
  if (graph === undefined) throw new TypeError('The sample agent can be offered')
  let offered: OfferedAgent | undefined
  return {
    graph,
    agent: {
      pid: process.pid,
      async offer(token) {
        offered = own(await OfferedAgent.offer(graph, token))
        return offered.url
      },
      async withdraw() {
        await offered?.[Symbol.asyncDispose]()
        return offered?.runs ?? 0
      },
      stop: async () => 0,
    },
    async wrongFor(agent, counter = 1) {
      const results: StepResult[] = []
      const scene = {
        world: { shop: { proxy } },
        narrator: { step() {}, says() {}, result() {}, follow: () => () => {} },
        tell: (result: StepResult) => void results.push(result),
      }
      await offer(scene as unknown as Scene, agent, counter)
      const wrong = results.filter(({ ok }) => !ok)
      return Object.fromEntries(wrong.map((result) => [result.name, result.wrong]))
    },
    async [Symbol.asyncDispose]() {
      for (const one of owned) await one[Symbol.asyncDispose]()
    },
  }
}

test('clients with and without a session use the agent, and nothing is left', async () => {
  await using stage = await setStage()
  expect(await stage.wrongFor(stage.agent)).toEqual({})
})

test('an agent that counts otherwise is found out', async () => {
  await using stage = await setStage()
  expect(await stage.wrongFor(stage.agent, 11)).toEqual({
    'caller with a session': ['counter is 3 and must be 13'],
    'caller without a session': ['counter is 5 and must be 15'],
  })
})

test('an agent that lets everybody in is found out', async () => {
  await using stage = await setStage()
  await using gateway = createGateway({ agents: { agent: stage.graph } })
  const careless: Offerable = {
    ...stage.agent,
    offer: async () => (await gateway.listen({ port: 0 })).url,
    async withdraw() {
      await gateway.close()
      return 3
    },
  }
  expect(await stage.wrongFor(careless)).toEqual({
    'caller without the token': [
      expect.stringMatching(/^requests is \d and must be 1$/),
      'refused is 0 and must be 1',
    ],
  })
})

test('an agent that stays a server is found out', async () => {
  await using stage = await setStage()
  const wrong = await stage.wrongFor({ ...stage.agent, withdraw: async () => 3 })
  expect(wrong).toEqual({ 'end of the offer': ['listens is true and must be false'] })
})

test('a process that something holds is found out', async () => {
  await using stage = await setStage()
  const wrong = await stage.wrongFor({ ...stage.agent, stop: async () => null })
  expect(wrong).toEqual({ 'end of the offer': ['exit code is killed and must be 0'] })
})
