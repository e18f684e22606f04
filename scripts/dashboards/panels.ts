import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import {
  GraphThresholdsStyleConfigBuilder,
  GraphThresholdsStyleMode,
  ReduceDataOptionsBuilder,
  TableCellDisplayMode,
  TableSortByFieldStateBuilder,
  TooltipDisplayMode,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  ConstantVariableBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  type Threshold,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  type VariableModel,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';
import { place } from './layout.ts';
import { type DashboardModel, inEnvironment, inRelease, type PanelModel } from './model.ts';

const datasource = { type: 'prometheus', uid: '$datasource' };
const everything = { text: ['All'], value: ['$__all'] };

/** The dashboard for Grafana, with an ID and a grid position for every panel. */
export function build(model: DashboardModel): Dashboard {
  const builder = new DashboardBuilder(model.title)
    .uid(model.uid)
    .description(model.description)
    .tags(['countersign'])
    .timezone('browser')
    .time({ from: 'now-3h', to: 'now' })
    .refresh('30s')
    .readonly()
    .variables(variables())
    .link(
      new DashboardLinkBuilder('Countersign')
        .type(DashboardLinkType.Dashboards)
        .tags(['countersign'])
        .keepTime(true)
        .includeVars(true),
    )
    .link(new DashboardLinkBuilder('Runbook').type(DashboardLinkType.Link).url('$runbook').targetBlank(true));
  for (const [at, { item, gridPos }] of place(model.sections).entries()) {
    const id = at + 1;
    if ('panels' in item) builder.withRow(new RowBuilder(item.title).id(id).gridPos(gridPos));
    else builder.withPanel(panelBuilder(item).id(id).gridPos(gridPos));
  }
  return builder.build();
}

/** The text of the file that Grafana imports. */
export function serialize(dashboard: Dashboard): string {
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

function variables(): Builder<VariableModel>[] {
  return [
    new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'),
    // `.*`: without the chart, Prometheus may add neither of these two labels.
    labelValues('namespace', 'Namespace', 'countersign_build_info').allValue('.*'),
    labelValues('release', 'Release', 'countersign_build_info{namespace=~"$namespace"}').allValue('.*'),
    labelValues('environment', 'Environment', `countersign_requests_in_flight_limit{${inRelease}}`),
    labelValues('operation', 'Operation', `countersign_request_outcomes_total{${inEnvironment}}`),
    new ConstantVariableBuilder('runbook')
      .label('Runbook URL')
      .value('https://git.example/countersign/blob/main/deploy/runbook.md'),
  ];
}

function labelValues(label: string, title: string, series: string): QueryVariableBuilder {
  return new QueryVariableBuilder(label)
    .label(title)
    .datasource(datasource)
    .query(`label_values(${series}, ${label})`)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.+')
    .current(everything);
}

function panelBuilder(model: PanelModel): StatBuilder | TimeseriesBuilder | TableBuilder {
  const builder = { stat, table, timeseries }[model.kind ?? 'timeseries'](model);
  builder
    .title(model.title)
    .description(`${model.purpose} ${model.description}`)
    .datasource(datasource)
    .unit(model.unit)
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps(model)))
    .targets(Object.entries(model.queries).map(model.kind === 'table' ? column : target));
  if ((model.redBelow ?? 0) >= 0) builder.min(0);
  if (model.runbook !== undefined) builder.links([runbookLink(model.runbook)]);
  return builder;
}

function stat(): StatBuilder {
  return new StatBuilder().reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']));
}

function timeseries({ redFrom, redBelow }: PanelModel): TimeseriesBuilder {
  const limits = redFrom === undefined && redBelow === undefined ? 'Off' : 'Dashed';
  return new TimeseriesBuilder()
    .lineWidth(1)
    .fillOpacity(10)
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi))
    .thresholdsStyle(new GraphThresholdsStyleConfigBuilder().mode(GraphThresholdsStyleMode[limits]));
}

/** Only the first column has the colors of the limits. */
function table({ queries }: PanelModel): TableBuilder {
  const titles = Object.keys(queries);
  const names = titles.map((title, at) => [`Value #${letter(at)}`, title] as const);
  return new TableBuilder()
    .withTransformation({ id: 'merge', options: {} })
    .withTransformation({
      id: 'organize',
      options: { excludeByName: { Time: true }, renameByName: Object.fromEntries(names) },
    })
    .sortBy([new TableSortByFieldStateBuilder().displayName(titles[0] ?? '').desc(true)])
    .overrideByName(titles[0] ?? '', [
      { id: 'custom.cellOptions', value: { type: TableCellDisplayMode.ColorBackground } },
    ]);
}

function column([, expr]: [string, string], at: number): DataqueryBuilder {
  return new DataqueryBuilder()
    .refId(letter(at))
    .datasource(datasource)
    .expr(expr)
    .format(PromQueryFormat.Table)
    .instant();
}

const letter = (at: number): string => String.fromCharCode('A'.charCodeAt(0) + at);

function target([legend, expr]: [string, string], at: number): DataqueryBuilder {
  return new DataqueryBuilder()
    .refId(letter(at))
    .datasource(datasource)
    .expr(expr)
    .legendFormat(`${legend} {{namespace}} {{release}}`)
    .exemplar(expr.includes('countersign_request_duration_seconds_bucket'))
    .range();
}

function steps({ redFrom, redBelow }: PanelModel): Threshold[] {
  return [
    { value: null, color: redBelow === undefined ? 'green' : 'red' },
    ...(redBelow === undefined ? [] : [{ value: redBelow, color: 'green' }]),
    ...(redFrom === undefined ? [] : [{ value: redFrom, color: 'red' }]),
  ];
}

function runbookLink(alert: string): DashboardLinkBuilder {
  return new DashboardLinkBuilder(`Runbook: ${alert}`)
    .type(DashboardLinkType.Link)
    .url(`$runbook#${alert.toLowerCase()}`)
    .targetBlank(true);
}
