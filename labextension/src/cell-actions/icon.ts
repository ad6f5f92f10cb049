import { LabIcon } from "@jupyterlab/ui-components";

const MARK =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><path class="jp-icon3" style="fill:none" ' +
  'd="M1.4 8.2h2.2l1.8-5.4 3 10.6 2.4-7.6 1.2 2.4h2.6" stroke="#616161" stroke-width="1.6" stroke-linecap="round" ' +
  'stroke-linejoin="round"/></svg>';

export const vibeIcon = new LabIcon({ name: "vibe-jupyter:mark", svgstr: MARK });
