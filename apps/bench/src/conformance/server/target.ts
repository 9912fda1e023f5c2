import { createGateway } from '@x/mcp-gateway'
import type { Gateway, GatewayOptions } from '@x/mcp-gateway'
// Not for everybody: only here is something else than agents put behind the legs of a gateway.
import { Assembly } from '../../../../../packages/mcp-gateway/src/assembly.ts'
import { ChangingAgents } from './changing-agents.ts'
import { fixtureAgents } from './fixture-agents.ts'
import { fixtureServers } from './fixture-servers.ts'
import { ServersWithSampling } from './servers-with-sampling.ts'
import type { TargetKind } from './target-kind.ts'

export interface Target extends AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
}

/** Starts one on a free port of 127.0.0.1, for one scenario. */
export async function startTarget(kind: TargetKind): Promise<Target> {
  const gateway = MAKERS[kind]()
  try {
    const { url } = await gateway.listen({ port: 0 })
    return { url, [Symbol.asyncDispose]: () => gateway.close() }
  } catch (error) {
    await gateway.close()
    throw error
  }
}

const MAKERS: Readonly<Record<TargetKind, () => Pick<Gateway, 'listen' | 'close'>>> = {
  agents: () => createGateway(withAgents()),
  sampling: () => new Assembly(onlyModern(), (parts) => new ServersWithSampling(parts)),
  fixture: () => new Assembly({}, () => fixtureServers),
}

function onlyModern(): GatewayOptions {
  return { ...withAgents(), eras: { legacy: 'off' } }
}

function withAgents(): GatewayOptions {
  return {
    agents: fixtureAgents,
    sources: [new ChangingAgents()],
    tools: { parameters: 'schema' },
    streaming: { channel: 'both' }, // there is a scenario for either
  }
}
