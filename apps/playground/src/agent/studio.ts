// The graph that `langgraph.json` names, for the LangGraph server and Studio. They bring their own checkpointer.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { executionTypeFrom } from '../timeline/commands.ts'
import { openTeam } from './graph.ts'
import type { Team } from './graph.ts'
import { createModel, modelName } from './models.ts'

/** Where the servers are, as long as the playground runs. */
const ENV_FILE = fileURLToPath(new URL('../../.playground.env', import.meta.url))

if (existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE)
else console.warn('The tools of the team have no servers: start `pnpm playground` first')

const team: Team = await openTeam({
  model: await createModel(modelName()),
  executionType: executionTypeFrom(process.env['AGENT_EXECUTION_TYPE']),
})

/** Exported as a value: a function would open the team again for each run. */
export const graph: Team['supervisor']['graph'] = team.supervisor.graph
