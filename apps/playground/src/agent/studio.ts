// The graph that `langgraph.json` names, for the LangGraph server and Studio. They bring their own checkpointer.
import { openTeam } from './graph.ts'
import type { Team } from './graph.ts'
import { createModel, modelName } from './models.ts'

const { AGENT_EXECUTION_TYPE } = process.env

const team: Team = await openTeam({
  model: await createModel(modelName()),
  executionType: AGENT_EXECUTION_TYPE === 'playground' ? 'playground' : 'runtime',
})

/** Exported as a value: a function would open the team again for each run. */
export const graph: Team['supervisor']['graph'] = team.supervisor.graph
