import type { Writable } from 'node:stream'
import { CommandError } from '@x/internal/command-line'
import { stringify } from 'yaml'
import { maskedConfig } from './masked-config.ts'
import type { ConfigFile } from './config-file.ts'
import { planReport, reportText } from './plan-report.ts'
import type { PlanReport } from './plan-report.ts'
import { plannedGateway } from './planned-gateway.ts'

export interface ReportOptions {
  readonly json: boolean
  readonly stdout: Writable
}

/** Prints the configuration and the tools of a file. @throws CommandError, GatewayError */
export async function checkFile(file: ConfigFile, { json, stdout }: ReportOptions): Promise<void> {
  await using planned = await plannedGateway(file, { isToServe: true })
  const report = planReport(planned.gateway, planned.warnings)
  const config = maskedConfig(planned.read.config)
  stdout.write(
    json
      ? `${JSON.stringify({ config, ...report })}\n`
      : `${stringify(config)}\n${reportText(report)}`,
  )
  checkSources(report)
}

/** Prints the tools of a file. @throws CommandError, GatewayError */
export async function listTools(file: ConfigFile, { json, stdout }: ReportOptions): Promise<void> {
  await using planned = await plannedGateway(file)
  const report = planReport(planned.gateway, planned.warnings)
  stdout.write(json ? `${JSON.stringify(report)}\n` : reportText(report))
  checkSources(report)
}

function checkSources({ sources }: PlanReport): void {
  const failed = sources.filter(({ state }) => state === 'failed')
  if (failed.length === 0) return
  throw new CommandError(`Failed: ${failed.map(({ name }) => name).join(', ')}`)
}
